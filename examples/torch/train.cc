// Trains a small network on libtorch with its activations swapped to files and its last block
// recomputed, and once more without; no Python in the process.
//
//   train FOLDER      a folder for the file tier
//
// Prints what was moved. Exit 1 when a parameter of the two networks differs in any bit.
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <vector>

#include "restow/libtorch.h"

namespace {

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int width)
      : up(register_module("up", torch::nn::Linear(width, 4 * width))),
        down(register_module("down", torch::nn::Linear(4 * width, width))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return x + torch::dropout(down->forward(torch::gelu(up->forward(x))), 0.1, is_training());
  }
  torch::nn::Linear up, down;
};
TORCH_MODULE(Block);

struct Net : torch::nn::Module {
  Net() {
    for (int i = 0; i < 4; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), Block(64)));
    }
  }
  torch::Tensor forward(torch::Tensor x, bool move) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      Block& block = blocks[i];
      if (!move) {
        x = block->forward(x);
        continue;
      }
      if (i + 1 < blocks.size()) {
        x = restow::libtorch::Swap(*block, x, {.name = "block", .min_bytes = 0});
      } else {
        x = restow::libtorch::Checkpoint(*block, x);
      }
    }
    return x;
  }
  std::vector<Block> blocks;
};

void Train(Net& net, bool move) {
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  for (int step = 0; step < 3; ++step) {
    torch::manual_seed(step);
    const torch::Tensor x = torch::randn({256, 64});
    const torch::Tensor loss = net.forward(x, move).square().mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    std::printf("%s step %d loss %.6f\n", move ? "restow" : "plain ", step, loss.item<float>());
  }
}

bool SameParameters(const Net& a, const Net& b) {
  const auto left = a.parameters(), right = b.parameters();
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!torch::equal(left[i], right[i])) return false;
  }
  return true;
}

int Run(const char* folder) {
  restow::libtorch::Start();
  auto settings = restow::libtorch::CurrentSettings();
  settings.file_dir = folder;
  restow::libtorch::Configure(settings);
  torch::manual_seed(7);
  Net plain;
  torch::manual_seed(7);
  Net moved;
  Train(plain, false);
  Train(moved, true);
  const auto stats = restow::libtorch::CurrentStats();
  std::printf("moved out %lld bytes, in %lld; recomputed %lld regions; units alive %lld\n",
              static_cast<long long>(stats.bytes_out), static_cast<long long>(stats.bytes_in),
              static_cast<long long>(stats.recomputed_regions),
              static_cast<long long>(stats.units));
  const bool same = SameParameters(plain, moved);
  std::printf("parameters %s\n", same ? "equal bit for bit" : "DIFFER");
  return same && stats.bytes_out > 0 && stats.recomputed_regions > 0 && stats.units == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", arguments[0]);
    return 2;
  }
  try {
    return Run(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
