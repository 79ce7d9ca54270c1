// The adapter's own operators are nobody's business: not autograd's, not autocast's, not a mode's,
// not a function transform's.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace restow::libtorch {

class InternalOps {
 public:
  InternalOps() : guard_(Excluded()) {}

 private:
  static c10::DispatchKeySet Excluded() {
    return c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
           c10::DispatchKeySet(
               {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                c10::DispatchKey::PreDispatch, c10::DispatchKey::Functionalize,
                c10::DispatchKey::DeferredInit, c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                c10::DispatchKey::FuncTorchDynamicLayerBackMode,
                c10::DispatchKey::FuncTorchVmapMode, c10::DispatchKey::FuncTorchBatched,
                c10::DispatchKey::FuncTorchGradWrapper});
  }
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace restow::libtorch
