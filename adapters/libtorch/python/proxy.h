// An engine in front of torch's Python engine that answers one question itself: which hooks handle
// what is saved now. It knows our hooks on torch's own stack by their class and gives C++ ones for
// them, so that saving takes no lock and makes no Python object. Everything else is passed on.
#pragma once

namespace restow::libtorch {

// Puts the proxy in front, once. The Python engine must be there. Errors: none.
void InstallProxy();
// Off: our hooks are called through Python like anybody's. Same semantics.
void SwitchProxy(bool on);

}  // namespace restow::libtorch
