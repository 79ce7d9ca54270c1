# Preset files and JSON Schemas become strings inside restow_io, so that the command needs no data folder.
file(GLOB_RECURSE preset_files CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}
  presets/*.yaml presets/*.json schemas/*.json)
set(embedded ${CMAKE_CURRENT_BINARY_DIR}/embedded_presets.cc)
set(preset_paths ${preset_files})
list(TRANSFORM preset_paths PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
add_custom_command(
  OUTPUT ${embedded}
  COMMAND ${CMAKE_COMMAND} -DOUT=${embedded} -DROOT=${CMAKE_CURRENT_SOURCE_DIR}
          "-DFILES=${preset_files}" -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${preset_paths} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed.cmake
  VERBATIM)
target_sources(restow_io PRIVATE ${embedded})
