// The CUDA driver API: instances of graphs, and their launch: node by node in one stream. Objects that graphs keep.
#include <algorithm>

#include "graphs.h"

namespace softcuda {

void retain(std::vector<UserObject*>& objects, UserObject* object, unsigned count)
{
    object->uses += count;
    objects.insert(objects.end(), count, object);
}

void release(UserObject* object, unsigned count)
{
    object->uses -= std::min(object->uses, count);
    if (object->uses)
        return;
    object->destroy(object->data);
    delete object;
}

namespace {

// Put a graph's nodes behind `steps`, each after what it needs; false where they need each other in a circle.
bool append(std::vector<ExecutableGraph::Step>& steps, const GraphState& graph)
{
    std::vector<const NodeState*> done;
    const auto is_done = [&](const NodeState* node) { return std::find(done.begin(), done.end(), node) != done.end(); };
    while (done.size() < graph.nodes.size()) {
        const size_t before = done.size();
        for (const auto& node : graph.nodes) {
            if (is_done(node.get()) || !std::all_of(node->needs.begin(), node->needs.end(), is_done))
                continue;
            done.push_back(node.get());
            if (node->child ? !append(steps, *node->child) : false)
                return false;
            if (!node->child && node->work)
                steps.push_back({node.get(), node->kind, node->work});
        }
        if (done.size() == before)
            return false;
    }
    return true;
}

int instantiate(ExecutableGraph** made, const GraphState* graph)
{
    if (!made || !graph)
        return invalid_value;
    auto executable = std::make_unique<ExecutableGraph>();
    if (!append(executable->steps, *graph))
        return invalid_value;
    for (UserObject* object : graph->objects)
        retain(executable->objects, object, 1);
    *made = executable.release();
    return success;
}

} // namespace
} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuGraphInstantiateWithFlags(ExecutableGraph** made, GraphState* graph, unsigned long long)
{
    ENTER(cuGraphInstantiate);
    return instantiate(made, graph);
}

struct InstantiateParameters { // CUDA_GRAPH_INSTANTIATE_PARAMS
    uint64_t flags;
    void* stream;
    NodeState* node;
    int result;
};
API cuGraphInstantiateWithParams(ExecutableGraph** made, GraphState* graph, InstantiateParameters* parameters)
{
    ENTER(cuGraphInstantiate);
    const int failed = parameters ? instantiate(made, graph) : invalid_value;
    if (parameters)
        parameters->result = failed ? 1 : 0, parameters->node = nullptr; // CUDA_GRAPH_INSTANTIATE_ERROR
    return failed;
}

API cuGraphUpload(ExecutableGraph* graph, void*)
{
    ENTER(cuGraphUpload);
    return graph ? success : invalid_value;
}

API cuGraphLaunch(ExecutableGraph* graph, void* stream)
{
    ENTER(cuGraphLaunch);
    if (!graph)
        return invalid_value;
    return enqueue(stream, [steps = graph->steps] {
        for (const auto& step : steps)
            step.work();
    }, NodeKind::graph);
}

API cuGraphExecDestroy(ExecutableGraph* graph)
{
    ENTER_WITHOUT_CONTEXT(cuGraphExecDestroy);
    if (!graph)
        return invalid_value;
    wait_for_every_context(); // what a launch of it uses is kept until then
    for (UserObject* object : graph->objects)
        release(object, 1);
    delete graph;
    return success;
}

struct UpdateResult { // CUgraphExecUpdateResultInfo
    int result;
    NodeState *node, *from;
};
API cuGraphExecUpdate_v2(ExecutableGraph* executable, GraphState* graph, UpdateResult* told)
{
    ENTER(cuGraphExecUpdate);
    ExecutableGraph* fresh = nullptr;
    if (!executable || !told)
        return invalid_value;
    if (const int failed = instantiate(&fresh, graph))
        return failed;
    const bool is_same = std::equal(executable->steps.begin(), executable->steps.end(), fresh->steps.begin(),
        fresh->steps.end(), [](const auto& a, const auto& b) { return a.kind == b.kind; });
    *told = {is_same ? 0 : 2, nullptr, nullptr}; // CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
    if (is_same)
        std::swap(*executable, *fresh);
    for (UserObject* object : fresh->objects)
        release(object, 1);
    delete fresh;
    return is_same ? success : graph_update_failed;
}

API cuGraphExecKernelNodeSetParams_v2(ExecutableGraph* executable, NodeState* node, const KernelNode* what)
{
    ENTER(cuGraphExecKernelNodeSetParams);
    if (!executable || !what)
        return invalid_value;
    Checked work = kernel_work(*what);
    for (auto& step : executable->steps)
        if (!work.code && step.node == node) {
            step.work = std::move(work.work);
            return success;
        }
    return work.code ? work.code : invalid_value;
}

API cuUserObjectCreate(UserObject** object, void* data, void (*destroy)(void*), unsigned uses, unsigned)
{
    ENTER_WITHOUT_CONTEXT(cuUserObjectCreate);
    if (!object || !destroy || !uses)
        return invalid_value;
    *object = new UserObject {data, destroy, uses};
    return success;
}

API cuUserObjectRetain(UserObject* object, unsigned count)
{
    ENTER_WITHOUT_CONTEXT(cuUserObjectRetain);
    if (!object)
        return invalid_value;
    object->uses += count;
    return success;
}

API cuUserObjectRelease(UserObject* object, unsigned count)
{
    ENTER_WITHOUT_CONTEXT(cuUserObjectRelease);
    if (!object)
        return invalid_value;
    release(object, count);
    return success;
}

API cuGraphRetainUserObject(GraphState* graph, UserObject* object, unsigned count, unsigned flags)
{
    ENTER_WITHOUT_CONTEXT(cuGraphRetainUserObject);
    if (!graph || !object)
        return invalid_value;
    retain(graph->objects, object, count);
    if (flags == 1) // CU_GRAPH_USER_OBJECT_MOVE: the caller's uses become the graph's
        object->uses -= count;
    return success;
}

API cuGraphReleaseUserObject(GraphState* graph, UserObject* object, unsigned count)
{
    ENTER_WITHOUT_CONTEXT(cuGraphReleaseUserObject);
    if (!graph || !object)
        return invalid_value;
    for (; count; --count) {
        const auto found = std::find(graph->objects.begin(), graph->objects.end(), object);
        if (found == graph->objects.end())
            return invalid_value;
        graph->objects.erase(found);
        release(object, 1);
    }
    return success;
}

} // extern "C"
