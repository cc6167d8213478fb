// What the parts of softcuda that have to do with barriers in shared memory (mbarrier) know of each other.
#pragma once

#include "races/checker.h"

namespace softcuda {

// mbarriers.cpp
void forget_mbarriers();      // of the block before
bool answer_those_who_poll(); // nobody can go on; false where nobody waits at an mbarrier, and a fault where all do that wait
void arrive_for_copies(uintptr_t barrier, unsigned thread, bool later); // whose copies have come; `later`: behind a barrier
void copies_have_come(uintptr_t barrier);                   // what may end its phase

// asynchronous.cpp: copies that an mbarrier waits for.
void tie_copies(uintptr_t barrier, uintptr_t site); // those that the present thread has begun
unsigned tied_arrivals(uintptr_t barrier);          // how many threads' copies are still to come
void land_tied(uintptr_t barrier);
void arrive_where_all_came(unsigned thread); // copies that it has waited for itself

// mbarrier_order.cpp: what arrivals and waits order.
void order_begins(); // in this block
void order_arrival(uintptr_t barrier);
void order_phase_end(uintptr_t barrier);
void order_wait(uintptr_t barrier);
void forget_mbarrier_order(); // of the block before

} // namespace softcuda
