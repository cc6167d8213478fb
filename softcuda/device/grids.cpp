// Launches whose blocks are alive at once: a block that has come to the barrier of the grid rests until all have, and
// its shared memory and its copies with it. To the checker that barrier is what lies between two launches.
#include <algorithm>

#include "executor.h"

namespace softcuda {
namespace {

struct Bytes {
    char* first;
    size_t size;
};

std::vector<Bytes> shared_memory()
{
    const Launch& launch = *running.launch;
    const Image& image = *launch.function->module->image;
    return {{image.first_shared, size_t(image.last_shared - image.first_shared)}, {dynamic_shared(), launch.dynamic_shared}};
}

std::string name_of(const Dim& block)
{
    return "(" + std::to_string(block.x) + ", " + std::to_string(block.y) + ", " + std::to_string(block.z) + ")";
}

} // namespace

BlockAtRest rest()
{
    BlockAtRest block;
    for (unsigned i = 0; i < turns.count; ++i)
        block.fibers.push_back(turns.threads[i].fiber);
    block.order = turns.order;
    block.site = turns.threads[turns.order.front()].site;
    for (const Bytes& part : shared_memory())
        block.shared.emplace_back(part.first, part.first + part.size);
    block.marks = marks_of_shared();
    block.copies = rest_copies();
    return block;
}

void resume(const BlockAtRest& block)
{
    turns.order = block.order;
    for (unsigned i = 0; i < turns.count; ++i)
        turns.threads[i].fiber = block.fibers[i];
    size_t number = 0;
    for (const Bytes& part : shared_memory())
        std::copy(block.shared[number].begin(), block.shared[number].end(), part.first), ++number;
    set_marks_of_shared(block.marks);
    resume_copies(block.copies);
}

Finding blocks_do_not_come(const std::vector<BlockAtRest>& blocks)
{
    const auto is_here = [](const BlockAtRest& block) { return !block.fibers.empty(); };
    const auto here = std::find_if(blocks.begin(), blocks.end(), is_here);
    const auto gone = std::find_if_not(blocks.begin(), blocks.end(), is_here);
    return {launch_failed, "barrier error " + in_kernel() + "\n  " + where(here->site)
            + ": the barrier of the grid is reached by block " + name_of(block_that_ran(uint64_t(here - blocks.begin())))
            + ", and not by block " + name_of(block_that_ran(uint64_t(gone - blocks.begin()))) + ", whose threads have ended"};
}

} // namespace softcuda

using namespace softcuda;

extern "C" EXPORT void softcuda_sync_grid()
{
    const auto site = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
    if (!running.launch->cooperative)
        fault(launch_failed, "barrier error " + in_kernel() + "\n  " + where(site) + ": " + who(running.thread)
                + " comes to the barrier of the grid in a launch that is not cooperative, whose blocks need not be there at"
                + " the same time: launch it by cuLaunchCooperativeKernel");
    Thread& thread = turns.threads[running.thread];
    thread.state = State::at_grid;
    thread.site = site;
    turns.at_grid.push_back(running.thread);
    wait_for_turn();
}

extern "C" EXPORT int softcuda_is_cooperative() { return running.launch->cooperative; }
