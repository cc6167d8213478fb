// Stands in for NVRTC, NVIDIA's compiler at run time: programs go to this folder's stand-in for nvcc, whose path is in
// SOFTCUDA_NVCC, and images for softcuda's driver come back, whether PTX or a cubin is asked for.
// https://docs.nvidia.com/cuda/nvrtc
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

extern char** environ;

namespace {

enum Result { // nvrtcResult
    success = 0,
    invalid_input = 3,
    invalid_program = 4,
    compilation_failed = 6,
    not_compiled = 10, // NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION
    name_not_valid = 9,
    too_late = 8, // NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION
};

const char* const error_names[] = {"NVRTC_SUCCESS", "NVRTC_ERROR_OUT_OF_MEMORY", "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
    "NVRTC_ERROR_INVALID_INPUT", "NVRTC_ERROR_INVALID_PROGRAM", "NVRTC_ERROR_INVALID_OPTION", "NVRTC_ERROR_COMPILATION",
    "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
    "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID", "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
    "NVRTC_ERROR_INTERNAL_ERROR"};

struct Program {
    std::string source, name, log, image;
    std::vector<std::pair<std::string, std::string>> headers; // name and text
    std::vector<std::string> expressions;
    std::map<std::string, std::string> lowered;
    bool compiled = false;
};

// A folder that goes with all that is in it.
struct Folder {
    std::string path;
    Folder()
    {
        const char* parent = getenv("TMPDIR");
        path = std::string(parent && *parent ? parent : "/tmp") + "/softcuda-XXXXXX";
        if (!mkdtemp(path.data()))
            path.clear();
    }
    ~Folder()
    {
        if (!path.empty())
            run({"/bin/rm", "-rf", path}, "/dev/null");
    }
    static int run(const std::vector<std::string>& command, const std::string& errors)
    {
        std::vector<char*> arguments;
        for (const std::string& word : command)
            arguments.push_back(const_cast<char*>(word.c_str()));
        arguments.push_back(nullptr);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        pid_t child = 0;
        const int failed = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
        posix_spawn_file_actions_destroy(&actions);
        int status = 0;
        if (failed || waitpid(child, &status, 0) != child)
            return -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
};

std::string contents(const std::string& path)
{
    std::string text;
    if (FILE* file = fopen(path.c_str(), "rb")) {
        char part[65536];
        for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;)
            text.append(part, got);
        fclose(file);
    }
    return text;
}

// Write a file, with the folders that its name has below `folder`.
bool write(const std::string& folder, const std::string& name, const std::string& text)
{
    for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1))
        mkdir((folder + "/" + name.substr(0, slash)).c_str(), 0700);
    FILE* file = fopen((folder + "/" + name).c_str(), "wb");
    if (!file)
        return false;
    const bool whole = fwrite(text.data(), 1, text.size(), file) == text.size();
    return fclose(file) == 0 && whole;
}

int refuse(Program& program, const std::string& why)
{
    program.log = "nvrtc (softcuda): " + why + "\n";
    return compilation_failed;
}

std::vector<std::string> lines_of(const std::string& text)
{
    std::vector<std::string> lines;
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
        lines.push_back(text.substr(begin, end - begin));
    return lines;
}

int compile(Program& program, const std::vector<std::string>& options)
{
    const char* compiler = getenv("SOFTCUDA_NVCC");
    if (!compiler || !*compiler)
        return refuse(program, "SOFTCUDA_NVCC does not say where the compiler is: call softcuda.activate() first");
    for (const std::string& option : options)
        if (option == "-dlto" || option == "--dlink-time-opt" || option.find("=lto_") != std::string::npos)
            return refuse(program, option + " asks for LTO-IR, which softcuda cannot run: compile to a cubin or to PTX");
    const Folder folder;
    if (folder.path.empty() || mkdir((folder.path + "/headers").c_str(), 0700) || !write(folder.path, "program.cu", program.source))
        return refuse(program, "there is no room for temporary files in " + folder.path);
    for (const auto& [name, text] : program.headers)
        if (!write(folder.path + "/headers", name, text))
            return refuse(program, "the header " + name + " cannot be written to " + folder.path);
    const std::string image = folder.path + "/image", names = folder.path + "/names", log = folder.path + "/log";
    std::vector<std::string> command {compiler, "-D__CUDACC_RTC__=1", "--as", program.name, "-I", folder.path + "/headers"};
    command.insert(command.end(), options.begin(), options.end());
    for (const std::string& expression : program.expressions)
        command.insert(command.end(), {"--name-expression", expression});
    command.insert(command.end(), {"--lowered-names", names, "-o", image, folder.path + "/program.cu"});
    const int status = Folder::run(command, log);
    program.log = contents(log);
    if (status)
        return status < 0 ? refuse(program, std::string(compiler) + " cannot be run") : int(compilation_failed);
    program.image = contents(image);
    const std::vector<std::string> lowered = lines_of(contents(names));
    for (size_t i = 0; i < lowered.size() && i < program.expressions.size(); ++i)
        program.lowered[program.expressions[i]] = lowered[i];
    program.compiled = true;
    return success;
}

int size_of(const Program* program, const std::string Program::*what, size_t* size, bool with_end)
{
    if (!program || !size)
        return program ? invalid_input : invalid_program;
    *size = (program->*what).size() + with_end;
    return success;
}

int give(const Program* program, const std::string Program::*what, char* bytes, bool with_end)
{
    if (!program || !bytes)
        return program ? invalid_input : invalid_program;
    memcpy(bytes, (program->*what).c_str(), (program->*what).size() + with_end);
    return success;
}

} // namespace

API nvrtcVersion(int* major, int* minor)
{
    if (!major || !minor)
        return invalid_input;
    *major = 13, *minor = 0;
    return success;
}

API nvrtcGetNumSupportedArchs(int* count)
{
    if (!count)
        return invalid_input;
    *count = 1;
    return success;
}

API nvrtcGetSupportedArchs(int* architectures)
{
    if (!architectures)
        return invalid_input;
    *architectures = 90;
    return success;
}

extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(int code)
{
    return code >= 0 && code < int(sizeof error_names / sizeof *error_names) ? error_names[code] : "NVRTC_ERROR unknown";
}

API nvrtcCreateProgram(Program** program, const char* source, const char* name, int count, const char* const* texts, const char* const* names)
{
    if (!program || !source || count < 0 || (count && (!texts || !names)))
        return invalid_input;
    *program = new Program;
    (*program)->source = source;
    (*program)->name = name && *name ? name : "default_program";
    for (int i = 0; i < count; ++i)
        (*program)->headers.emplace_back(names[i], texts[i]);
    return success;
}

API nvrtcDestroyProgram(Program** program)
{
    if (!program || !*program)
        return invalid_program;
    delete *program;
    *program = nullptr;
    return success;
}

API nvrtcAddNameExpression(Program* program, const char* expression)
{
    if (!program || !expression)
        return program ? invalid_input : invalid_program;
    if (program->compiled)
        return too_late;
    program->expressions.push_back(expression);
    return success;
}

API nvrtcCompileProgram(Program* program, int count, const char* const* options)
{
    if (!program || count < 0 || (count && !options))
        return program ? invalid_input : invalid_program;
    return compile(*program, {options, options + count});
}

API nvrtcGetLoweredName(Program* program, const char* expression, const char** name)
{
    if (!program || !expression || !name)
        return program ? invalid_input : invalid_program;
    if (!program->compiled)
        return not_compiled;
    const auto found = program->lowered.find(expression);
    if (found == program->lowered.end())
        return name_not_valid;
    *name = found->second.c_str();
    return success;
}

API nvrtcGetProgramLogSize(Program* program, size_t* size) { return size_of(program, &Program::log, size, true); }
API nvrtcGetProgramLog(Program* program, char* log) { return give(program, &Program::log, log, true); }
API nvrtcGetCUBINSize(Program* program, size_t* size) { return size_of(program, &Program::image, size, false); }
API nvrtcGetCUBIN(Program* program, char* image) { return give(program, &Program::image, image, false); }
API nvrtcGetPTXSize(Program* program, size_t* size) { return size_of(program, &Program::image, size, true); }
API nvrtcGetPTX(Program* program, char* image) { return give(program, &Program::image, image, true); }

// What there is none of here: link-time code, code for OptiX, and a heap and a flow of precompiled headers.

API nvrtcGetLTOIRSize(Program*, size_t*) { return invalid_program; }
API nvrtcGetLTOIR(Program*, char*) { return invalid_program; }
API nvrtcGetOptiXIRSize(Program*, size_t*) { return invalid_program; }
API nvrtcGetOptiXIR(Program*, char*) { return invalid_program; }
