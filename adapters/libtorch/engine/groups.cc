#include "engine/groups.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "engine/engines.h"

namespace restow::libtorch {
namespace {

bool Knows(const DeviceEngine& one, const std::string& group) {
  const std::vector<std::string> names = one.engine->GroupNames();
  return std::find(names.begin(), names.end(), group) != names.end();
}

void Note(DeviceEngine& one, std::set<std::string> DeviceEngine::*launched,
          const std::string& group) {
  const std::lock_guard<std::mutex> lock(one.groups_mutex);
  (one.*launched).insert(group);
}

// Had it been noted? It no longer is.
bool Take(DeviceEngine& one, std::set<std::string> DeviceEngine::*launched,
          const std::string& group) {
  const std::lock_guard<std::mutex> lock(one.groups_mutex);
  return (one.*launched).erase(group) != 0;
}

}  // namespace

void LaunchGroupOffload(const std::string& group) {
  ForEachEngine([&](DeviceEngine& one) {
    if (!Knows(one, group)) return;
    one.engine->LaunchOffload(group);
    Note(one, &DeviceEngine::offloads, group);
  });
}

void WaitGroupOffload(const std::string& group) {
  ForEachEngine([&](DeviceEngine& one) {
    if (Take(one, &DeviceEngine::offloads, group)) one.engine->WaitOffload(group);
  });
}

void LaunchGroupLoad(const std::string& group) {
  ForEachEngine([&](DeviceEngine& one) {
    if (!Knows(one, group)) return;
    one.engine->LaunchLoad(group);
    Note(one, &DeviceEngine::loads, group);
  });
}

void WaitGroupLoad(const std::string& group) {
  ForEachEngine([&](DeviceEngine& one) {
    if (Take(one, &DeviceEngine::loads, group)) one.engine->WaitLoad(group);
  });
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
