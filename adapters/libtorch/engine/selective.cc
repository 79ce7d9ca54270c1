#include "engine/selective.h"

#include <ATen/Context.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "engine/errors.h"
#include "engine/host.h"
#include "restow/base/error.h"

namespace restow::libtorch {
namespace {

// No backend uses it, and it comes before autograd and autocast.
constexpr c10::DispatchKey kKey = c10::DispatchKey::DeferredInit;

struct Ignored {
  std::mutex mutex;
  std::unordered_set<std::string> names;
};
Ignored& TheIgnored() {
  static auto* const ignored = new Ignored;
  return *ignored;
}

// What an operator is, worked out once per thread.
struct Kind {
  bool composite = false;  // made of others, which autograd sees instead
  bool writes = false;
  bool view = false;  // a result shares an argument's memory: nothing to be gained by keeping it
  bool random = false;
  bool ignored = false;
  std::string name, full_name;
};

Kind Examine(const c10::OperatorHandle& op) {
  Kind kind;
  const c10::FunctionSchema& schema = op.schema();
  kind.composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  kind.writes = schema.is_mutable();
  for (const c10::Argument& result : schema.returns()) {
    kind.view = kind.view || result.alias_info() != nullptr;
  }
  kind.random = op.hasTag(at::Tag::nondeterministic_seeded);
  kind.name = op.operator_name().name;
  kind.full_name = FullName(op);
  Ignored& ignored = TheIgnored();
  const std::lock_guard<std::mutex> lock(ignored.mutex);
  kind.ignored = ignored.names.contains(kind.name) || ignored.names.contains(kind.full_name);
  return kind;
}

std::atomic<std::uint64_t> kinds_version{0};

const Kind& KindOf(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<const void*, Kind> kinds;
  thread_local std::uint64_t version = 0;
  if (version != kinds_version.load()) {
    kinds.clear();
    version = kinds_version.load();
  }
  const void* const address = &op.schema();
  const auto found = kinds.find(address);
  if (found != kinds.end()) return found->second;
  return kinds.emplace(address, Examine(op)).first->second;
}

void Below(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

// Dispatch modes in Python run operators with the keys of their caller: not even those are seen.
thread_local bool inside = false;

// With what it calls unseen.
void RunWhole(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  struct Inside {
    bool before = std::exchange(inside, true);
    ~Inside() { inside = before; }
  } const marked;
  const c10::impl::ExcludeDispatchKeyGuard guard(kKey);
  Below(op, keys, stack);
}

// The tensors among an operator's last values, lists opened, in order.
template <typename Call>
void ForEachTensor(const c10::IValue& value, const Call& call) {
  if (value.isTensor()) {
    call(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) call(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector()) {
      if (tensor) call(*tensor);
    }
  }
}

std::vector<at::Tensor> TensorsOf(const torch::jit::Stack& stack, std::size_t count) {
  std::vector<at::Tensor> tensors;
  for (std::size_t i = stack.size() - count; i < stack.size(); ++i) {
    ForEachTensor(stack[i], [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  }
  return tensors;
}

bool AllPlainOrTensors(const torch::jit::Stack& stack, std::size_t count) {
  for (std::size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (stack[i].isTensorList() || stack[i].isOptionalTensorList()) return false;
  }
  return true;
}

at::Tensor RandomState(c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void SetRandomState(c10::Device device, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

// A composite operator is one operator where a name says so, else those that it is made of.
bool TakenWhole(const NamedChoice* named) {
  return named != nullptr && named->choice != OperatorChoice::kRecompute;
}

void Fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  Running* const running = CurrentlyRunning();
  Selection* const selection =
      running != nullptr && running->frame != nullptr ? running->frame->selection().get() : nullptr;
  if (selection == nullptr || inside) return Below(op, keys, stack);
  OrHostError([&] {
    running->again ? selection->Again(*running, op, keys, stack)
                   : selection->Forward(*running, op, keys, stack);
  });
}

// Registered when the first selective checkpoint runs, so that nobody else pays for it.
void Register() {
  static auto* const library = [] {
    if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kKey)) {
      ThrowUnsupported(
          "selective recompute needs the dispatch key DeferredInit, which another library uses in "
          "this process");
    }
    auto* const made = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&Fallback>());
    return made;
  }();
  static_cast<void>(library);
}

}  // namespace

std::string FullName(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

Selection::Selection(std::shared_ptr<const OperatorNames> names, StackPolicy policy,
                     std::shared_ptr<SavingRegion> kept)
    : names_(std::move(names)), policy_(std::move(policy)), kept_(std::move(kept)) {}

void Watch(Running& running) {
  Register();
  running.watching = std::make_unique<c10::impl::IncludeDispatchKeyGuard>(kKey);
}

void IgnoreOperators(const std::vector<std::string>& names) {
  OperatorNames expanded;
  for (const std::string& name : names) AddOperators(expanded, name, OperatorChoice::kRecompute);
  Ignored& ignored = TheIgnored();
  {
    const std::lock_guard<std::mutex> lock(ignored.mutex);
    for (const auto& [name, choice] : expanded) ignored.names.insert(name);
  }
  kinds_version.fetch_add(1);
}

// What the names say of it; null: nothing.
const NamedChoice* Selection::Named(const c10::OperatorHandle& op) const {
  const Kind& kind = KindOf(op);
  if (!names_ || kind.ignored || kind.writes || kind.view) return nullptr;
  auto found = names_->find(kind.full_name);
  if (found == names_->end()) found = names_->find(kind.name);
  return found == names_->end() ? nullptr : &found->second;
}

OperatorChoice Selection::Turn(const NamedChoice& named) {
  const bool mine = !named.every_second || turns_++ % 2 == 0;
  return mine ? named.choice : OperatorChoice::kRecompute;
}

// Composite operators are not asked for.
OperatorChoice Selection::Ask(const c10::OperatorHandle& op, const torch::jit::Stack& stack) const {
  const Kind& kind = KindOf(op);
  const bool asked = policy_ && !kind.ignored && !kind.writes && !kind.view && !kind.composite;
  if (!asked) return OperatorChoice::kRecompute;
  const c10::impl::ExcludeDispatchKeyGuard guard(kKey);  // what the policy calls is its own affair
  return policy_(op, stack);
}

void Selection::Forward(Running& running, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                        torch::jit::Stack* stack) {
  const Kind& kind = KindOf(op);
  const NamedChoice* const named = Named(op);
  if (kind.composite && !TakenWhole(named)) return Below(op, keys, stack);
  const OperatorChoice choice = named != nullptr ? Turn(*named) : Ask(op, *stack);
  const std::size_t number = running.operators++;
  if (kind.writes) MakeStale(*stack, op.schema());
  if (choice == OperatorChoice::kRecompute) return RunWhole(op, keys, stack);
  Keep(running, number, op, keys, stack, choice);
}

void Selection::Keep(Running& running, std::size_t number, const c10::OperatorHandle& op,
                     c10::DispatchKeySet keys, torch::jit::Stack* stack, OperatorChoice choice) {
  const c10::FunctionSchema& schema = op.schema();
  Kept kept;
  kept.schema = &schema;
  kept.first_saved = running.frame->saved_count();
  const std::vector<at::Tensor> arguments = TensorsOf(*stack, schema.arguments().size());
  running.frame->BeginCapture();
  try {
    RunWhole(op, keys, stack);
  } catch (...) {
    running.frame->EndCapture();
    throw;
  }
  const std::vector<Frame::Captured> captured = running.frame->EndCapture();
  const std::size_t count = schema.returns().size();
  if (!AllPlainOrTensors(*stack, count)) return;  // lists of results are made again
  kept.decision = choice == OperatorChoice::kSwap ? swap::Decision::kSwap : swap::Decision::kKeep;
  std::vector<at::Tensor> results;
  for (std::size_t i = stack->size() - count; i < stack->size(); ++i) {
    Result& result = kept.results.emplace_back();
    const c10::IValue& value = (*stack)[i];
    results.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
    const at::Tensor& tensor = results.back();
    if (!tensor.defined()) {
      result.plain = value;
      continue;
    }
    result.is_tensor = true;
    result.requires_grad = tensor.requires_grad();
    result.held = Hold(tensor);
    if (tensor.has_storage()) kept.storages.push_back(tensor.storage().unsafeGetStorageImpl());
  }
  for (const Frame::Captured& saved : captured) {
    kept.fills.push_back(FillOf(saved.alias, arguments, results));
  }
  if (KindOf(op).random && running.frame->preserves_random()) {
    kept.random.push_back({c10::DeviceType::CPU, RandomState(c10::DeviceType::CPU)});
    for (const c10::Device& device : DevicesOf(arguments)) {
      kept.random.push_back({device, RandomState(device)});
    }
  }
  by_number_.emplace(number, std::move(kept));
}

Selection::Held Selection::Hold(const at::Tensor& tensor) {
  return {AliasOf(tensor), VersionOf(tensor), nullptr};
}

// False when something of it was written meanwhile: the operator is run again then.
bool Selection::PutAway(Kept& kept) {
  std::vector<Held*> all;
  for (Result& result : kept.results) {
    if (result.is_tensor) all.push_back(&result.held);
  }
  for (Fill& fill : kept.fills) {
    if (fill.kind == Fill::kOwn) all.push_back(&fill.own);
  }
  for (Held* held : all) {
    if (VersionOf(held->alias) != held->version) return false;
  }
  const bool stays = kept_->spec().mode == RegionMode::kKeep;
  for (Held* held : all) {
    held->slot = kept_->PackAs(held->alias, stays ? swap::Decision::kKeep : kept.decision);
    held->alias.reset();
  }
  return true;
}

void Selection::End() {
  for (auto at = by_number_.begin(); at != by_number_.end();) {
    at = PutAway(at->second) ? std::next(at) : by_number_.erase(at);
  }
  kept_->End();
}

// What is written into is no longer what was kept, whichever view it is written through: also
// those that share no version with it (aten::_unsafe_view).
void Selection::MakeStale(const torch::jit::Stack& stack, const c10::FunctionSchema& schema) {
  const std::size_t count = schema.arguments().size();
  for (std::size_t i = 0; i < count; ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    ForEachTensor(stack[stack.size() - count + i], [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !tensor.has_storage()) return;
      const auto* const storage = tensor.storage().unsafeGetStorageImpl();
      std::erase_if(by_number_, [&](const auto& entry) {
        const auto& storages = entry.second.storages;
        return std::find(storages.begin(), storages.end(), storage) != storages.end();
      });
    });
  }
}

void Selection::Again(Running& running, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack) {
  const Kind& kind = KindOf(op);
  const std::size_t number = running.operators;
  const auto found = by_number_.find(number);
  const bool ours = found != by_number_.end() && found->second.schema == &op.schema();
  // Counted in the forward only where it was taken whole by name, even if it then became stale.
  if (!ours && kind.composite && !TakenWhole(Named(op))) return Below(op, keys, stack);
  ++running.operators;
  if (!ours) {
    if (found != by_number_.end()) {
      throw NotDeterministic("recompute of '" + running.frame->name() + "' runs " + kind.full_name +
                             " where its forward ran " + found->second.schema->name() +
                             ". The function must do the same when it is run again");
    }
    return RunWhole(op, keys, stack);
  }
  const Kept& kept = found->second;
  if (running.replay->next() != kept.first_saved) {
    throw NotDeterministic("recompute of '" + running.frame->name() + "' had saved " +
                           std::to_string(running.replay->next()) + " tensors before " +
                           kind.full_name + ", its forward " + std::to_string(kept.first_saved));
  }
  const std::vector<at::Tensor> arguments = TensorsOf(*stack, op.schema().arguments().size());
  std::vector<c10::IValue> results;
  std::vector<at::Tensor> saved;
  try {
    for (const Result& result : kept.results) {
      if (!result.is_tensor) {
        results.push_back(result.plain);
        continue;
      }
      at::Tensor tensor = result.held.Get();
      if (result.requires_grad) tensor.set_requires_grad(true);
      results.emplace_back(std::move(tensor));
    }
    for (const Fill& fill : kept.fills) {
      std::optional<at::Tensor> filled = Filled(fill, arguments, results);
      if (!filled) return RunWhole(op, keys, stack);
      saved.push_back(std::move(*filled));
    }
  } catch (const ModifiedInPlace&) {
    return RunWhole(op, keys, stack);  // changed by who called the function, as he may
  }
  for (const Random& one : kept.random) SetRandomState(one.device, one.state);
  for (const at::Tensor& tensor : saved) running.replay->Accept(tensor);
  torch::jit::drop(*stack, op.schema().arguments().size());
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

}  // namespace restow::libtorch
