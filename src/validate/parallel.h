// One function over many indexes.
#pragma once

#include <cstddef>
#include <functional>

namespace restow::validate {

// Calls work(i) for every i below n from `threads` threads (0: as many as the machine has). The
// first exception, by index, is thrown on when all are done.
void ForEach(std::size_t n, int threads, const std::function<void(std::size_t)>& work);

}  // namespace restow::validate
