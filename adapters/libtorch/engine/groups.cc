#include "engine/groups.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "engine/engines.h"

namespace restow::libtorch {
namespace {

bool Knows(const DeviceEngine& one, const std::string& group) {
  const std::vector<std::string> names = one.engine->GroupNames();
  return std::find(names.begin(), names.end(), group) != names.end();
}

// Names of groups whose launch awaits its wait.
using Launched = std::set<std::string> DeviceEngine::*;

void Note(DeviceEngine& one, Launched launched, const std::string& group) {
  const std::lock_guard<std::mutex> lock(one.groups_mutex);
  (one.*launched).insert(group);
}

// Had it been noted? It no longer is.
bool Take(DeviceEngine& one, Launched launched, const std::string& group) {
  const std::lock_guard<std::mutex> lock(one.groups_mutex);
  return (one.*launched).erase(group) != 0;
}

using Step = void (swap::Engine::*)(std::string_view group);

void Launch(Launched launched, Step step, const std::string& group) {
  ForEachEngine([&](DeviceEngine& one) {
    if (!Knows(one, group)) return;
    ((*one.engine).*step)(group);
    Note(one, launched, group);
  });
}

void Wait(Launched launched, Step step, const std::string& group) {
  ForEachEngine([&](DeviceEngine& one) {
    if (Take(one, launched, group)) ((*one.engine).*step)(group);
  });
}

}  // namespace

void LaunchGroupOffload(const std::string& group) {
  Launch(&DeviceEngine::offloads, &swap::Engine::LaunchOffload, group);
}

void WaitGroupOffload(const std::string& group) {
  Wait(&DeviceEngine::offloads, &swap::Engine::WaitOffload, group);
}

void LaunchGroupLoad(const std::string& group) {
  Launch(&DeviceEngine::loads, &swap::Engine::LaunchLoad, group);
}

void WaitGroupLoad(const std::string& group) {
  Wait(&DeviceEngine::loads, &swap::Engine::WaitLoad, group);
}

void DropGroup(const std::string& group) {
  ForEachEngine([&](DeviceEngine& one) {
    Take(one, &DeviceEngine::offloads, group);
    Take(one, &DeviceEngine::loads, group);
    one.engine->DropGroup(group);
  });
}

std::vector<std::string> GroupNames() {
  std::set<std::string> all;
  ForEachEngine([&](DeviceEngine& one) {
    for (std::string& name : one.engine->GroupNames()) all.insert(std::move(name));
  });
  return {all.begin(), all.end()};
}

}  // namespace restow::libtorch
