// The CUDA driver API: graphs as far as they are launches, copies and fills that are done again: their nodes.
#include "graphs.h"

#include <algorithm>

#include "copies.h"
#include "races/stream_races.h"

namespace softcuda {

// CUDA_KERNEL_NODE_PARAMS of version 2 and 3 as cuda.h lays them out.
struct KernelNode {
    Function* function;
    Dim grid, block;
    unsigned shared;
    void **parameters, **extra;
    Function* kernel;
    void* context;
};

Checked kernel_work(const KernelNode& node)
{
    Function* function = node.function ? node.function : node.kernel;
    if (!function)
        return {invalid_handle, nullptr};
    Launch launch {function, node.grid, node.block, node.shared, {}};
    if (const int failed = unpacked(launch, node.parameters, node.extra))
        return {failed, nullptr};
    return launch_work(std::move(launch));
}

namespace {

// The others, as cuda.h lays them out.
struct FillNode {
    uintptr_t address;
    size_t pitch;
    unsigned value, bytes;
    size_t width, height;
};
struct HostNode {
    void (*function)(void*);
    void* data;
};
struct NodeParameters { // CUgraphNodeParams
    int kind, reserved[3];
    union {
        KernelNode kernel;
        struct {
            int flags, reserved;
            void* context;
            Copy3D copy;
        } copy;
        FillNode fill;
        HostNode host;
        GraphState* child;
    };
};

Checked host_work(const HostNode& node)
{
    ContextState* context = current_context();
    if (!node.function)
        return {invalid_value, nullptr};
    return {success, [node, context] {
        host_function_begins();
        if (!has_failed(context))
            node.function(node.data);
        host_function_ends();
    }};
}

int add(NodeState** node, GraphState* graph, NodeState* const* needs, size_t count, NodeKind kind, Checked checked)
{
    if (!node || !graph || (count && !needs))
        return invalid_value;
    if (!checked.code)
        *node = graph->add(kind, std::move(checked.work), {needs, needs + count});
    return checked.code;
}

std::unique_ptr<GraphState> copy_of(const GraphState& graph)
{
    auto made = std::make_unique<GraphState>();
    std::vector<const NodeState*> originals;
    const auto place = [&](const NodeState* node) {
        return made->nodes[size_t(std::find(originals.begin(), originals.end(), node) - originals.begin())].get();
    };
    for (const auto& node : graph.nodes) {
        originals.push_back(node.get());
        made->add(node->kind, node->work, {})->child = node->child ? copy_of(*node->child) : nullptr;
    }
    for (const auto& node : graph.nodes)
        for (const NodeState* need : node->needs)
            place(node.get())->needs.push_back(place(need));
    for (UserObject* object : graph.objects)
        retain(made->objects, object, 1);
    return made;
}

int list(const std::vector<NodeState*>& found, NodeState** nodes, size_t* count)
{
    if (!count)
        return invalid_value;
    if (nodes)
        std::copy_n(found.begin(), std::min(*count, found.size()), nodes);
    *count = nodes ? std::min(*count, found.size()) : found.size();
    return success;
}

std::vector<NodeState*> nodes_of(const GraphState& graph, bool roots)
{
    std::vector<NodeState*> found;
    for (const auto& node : graph.nodes)
        if (!roots || node->needs.empty())
            found.push_back(node.get());
    return found;
}

} // namespace
} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuGraphCreate(GraphState** graph, unsigned)
{
    ENTER_WITHOUT_CONTEXT(cuGraphCreate);
    *graph = new GraphState;
    return success;
}

API cuGraphDestroy(GraphState* graph)
{
    ENTER_WITHOUT_CONTEXT(cuGraphDestroy);
    if (!graph)
        return invalid_value;
    for (UserObject* object : graph->objects)
        release(object, 1);
    delete graph;
    return success;
}

API cuGraphClone(GraphState** made, const GraphState* graph)
{
    ENTER_WITHOUT_CONTEXT(cuGraphClone);
    if (!made || !graph)
        return invalid_value;
    *made = copy_of(*graph).release();
    return success;
}

API cuGraphAddKernelNode_v2(NodeState** node, GraphState* graph, NodeState* const* needs, size_t count, const KernelNode* what)
{
    ENTER(cuGraphAddKernelNode);
    return what ? add(node, graph, needs, count, NodeKind::kernel, kernel_work(*what)) : invalid_value;
}

API cuGraphAddMemcpyNode(NodeState** node, GraphState* graph, NodeState* const* needs, size_t count, const Copy3D* what, void*)
{
    ENTER(cuGraphAddMemcpyNode);
    return what ? add(node, graph, needs, count, NodeKind::copy, copy_work(*what)) : invalid_value;
}

API cuGraphAddMemsetNode(NodeState** node, GraphState* graph, NodeState* const* needs, size_t count, const FillNode* what, void*)
{
    ENTER(cuGraphAddMemsetNode);
    if (!what)
        return invalid_value;
    Checked work = fill_work(what->address, what->pitch, what->value, what->bytes, what->width, what->height);
    return add(node, graph, needs, count, NodeKind::fill, std::move(work));
}

API cuGraphAddHostNode(NodeState** node, GraphState* graph, NodeState* const* needs, size_t count, const HostNode* what)
{
    ENTER(cuGraphAddHostNode);
    return what ? add(node, graph, needs, count, NodeKind::host, host_work(*what)) : invalid_value;
}

API cuGraphAddEmptyNode(NodeState** node, GraphState* graph, NodeState* const* needs, size_t count)
{
    ENTER(cuGraphAddEmptyNode);
    return add(node, graph, needs, count, NodeKind::empty, {success, nullptr});
}

API cuGraphAddChildGraphNode(NodeState** node, GraphState* graph, NodeState* const* needs, size_t count, const GraphState* child)
{
    ENTER(cuGraphAddChildGraphNode);
    if (!child)
        return invalid_value;
    const int failed = add(node, graph, needs, count, NodeKind::graph, {success, nullptr});
    if (!failed)
        (*node)->child = copy_of(*child);
    return failed;
}

API cuGraphChildGraphNodeGetGraph(NodeState* node, GraphState** child)
{
    ENTER_WITHOUT_CONTEXT(cuGraphChildGraphNodeGetGraph);
    if (!node || !child || !node->child)
        return invalid_value;
    *child = node->child.get();
    return success;
}

API cuGraphAddNode_v2(
    NodeState** node, GraphState* graph, NodeState* const* needs, const void*, size_t count, const NodeParameters* what)
{
    ENTER(cuGraphAddNode);
    if (!what)
        return invalid_value;
    switch (NodeKind(what->kind)) {
    case NodeKind::kernel: return cuGraphAddKernelNode_v2(node, graph, needs, count, &what->kernel);
    case NodeKind::copy: return cuGraphAddMemcpyNode(node, graph, needs, count, &what->copy.copy, nullptr);
    case NodeKind::fill: return cuGraphAddMemsetNode(node, graph, needs, count, &what->fill, nullptr);
    case NodeKind::host: return cuGraphAddHostNode(node, graph, needs, count, &what->host);
    case NodeKind::graph: return cuGraphAddChildGraphNode(node, graph, needs, count, what->child);
    case NodeKind::empty: return cuGraphAddEmptyNode(node, graph, needs, count);
    }
    return not_here("graph nodes of type " + std::to_string(what->kind)
        + " (events, semaphores, allocations, batches, conditions), only launches, copies, fills, host functions and child graphs");
}

API cuGraphAddDependencies(GraphState* graph, NodeState* const* from, NodeState* const* to, size_t count)
{
    ENTER_WITHOUT_CONTEXT(cuGraphAddDependencies);
    if (!graph)
        return invalid_value;
    for (size_t i = 0; i < count; ++i)
        to[i]->needs.push_back(from[i]);
    return success;
}

API cuGraphAddDependencies_v2(GraphState* graph, NodeState* const* from, NodeState* const* to, const void*, size_t count)
{
    return cuGraphAddDependencies(graph, from, to, count);
}

API cuGraphNodeGetType(NodeState* node, int* kind)
{
    ENTER_WITHOUT_CONTEXT(cuGraphNodeGetType);
    if (!node || !kind)
        return invalid_value;
    *kind = int(node->kind);
    return success;
}

API cuGraphGetNodes(GraphState* graph, NodeState** nodes, size_t* count)
{
    ENTER_WITHOUT_CONTEXT(cuGraphGetNodes);
    return graph ? list(nodes_of(*graph, false), nodes, count) : invalid_value;
}

API cuGraphGetRootNodes(GraphState* graph, NodeState** nodes, size_t* count)
{
    ENTER_WITHOUT_CONTEXT(cuGraphGetRootNodes);
    return graph ? list(nodes_of(*graph, true), nodes, count) : invalid_value;
}

API cuGraphNodeGetDependencies_v2(NodeState* node, NodeState** nodes, void*, size_t* count)
{
    ENTER_WITHOUT_CONTEXT(cuGraphNodeGetDependencies);
    return node ? list(node->needs, nodes, count) : invalid_value;
}

API cuGraphGetEdges_v2(GraphState* graph, NodeState** from, NodeState** to, void*, size_t* count)
{
    ENTER_WITHOUT_CONTEXT(cuGraphGetEdges);
    if (!graph || !count)
        return invalid_value;
    std::vector<NodeState*> firsts, seconds;
    for (const auto& node : graph->nodes)
        for (NodeState* need : node->needs)
            firsts.push_back(need), seconds.push_back(node.get());
    size_t again = *count;
    const int failed = list(firsts, from, &again);
    return failed ? failed : list(seconds, to, count);
}

API cuGraphKernelNodeSetParams_v2(NodeState* node, const KernelNode* what)
{
    ENTER(cuGraphKernelNodeSetParams);
    if (!node || !what)
        return invalid_value;
    Checked work = kernel_work(*what);
    if (!work.code)
        node->work = std::move(work.work);
    return work.code;
}

} // extern "C"
