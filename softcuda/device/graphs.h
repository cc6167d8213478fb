// What capture.cpp and graphs.cpp know of graphs.
#pragma once

#include <memory>

#include "driver.h"

namespace softcuda {

struct GraphState;

struct UserObject {
    void* data;
    void (*destroy)(void*);
    unsigned uses;
};

// One thing that a graph does, after all that it needs.
struct NodeState {
    NodeKind kind;
    Work work;
    std::vector<NodeState*> needs;
    std::unique_ptr<GraphState> child; // of NodeKind::graph
};

struct GraphState {
    std::vector<std::unique_ptr<NodeState>> nodes;
    std::vector<UserObject*> objects;
    NodeState* add(NodeKind kind, Work work, std::vector<NodeState*> needs)
    {
        nodes.push_back(std::unique_ptr<NodeState>(new NodeState {kind, std::move(work), std::move(needs), nullptr}));
        return nodes.back().get();
    }
};

// An instance: what it does, in an order that its graph allows.
struct ExecutableGraph {
    struct Step {
        const NodeState* node;
        NodeKind kind;
        Work work;
    };
    std::vector<Step> steps;
    std::vector<UserObject*> objects;
};

// graphs.cpp
struct KernelNode;
Checked kernel_work(const KernelNode& node);

// executable_graphs.cpp
void retain(std::vector<UserObject*>& objects, UserObject* object, unsigned count);
void release(UserObject* object, unsigned count);

} // namespace softcuda
