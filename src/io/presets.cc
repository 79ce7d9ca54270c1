#include "restow/io/presets.h"
