# The names that wheels ask for, as empty libraries that depend on libsoftnpu.so, and a folder laid out as the vendor's toolkit.

# The device finds itself through its aliases: a dlsym on any of them reaches it.
file(WRITE ${GENERATED}/softnpu/empty.c "extern int softnpu_alias_is_empty;\n")
foreach(name ${SOFTNPU_ALIASES})
  add_library(alias_${name} SHARED ${GENERATED}/softnpu/empty.c)
  set_target_properties(alias_${name} PROPERTIES OUTPUT_NAME ${name} BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
  target_link_options(alias_${name} PRIVATE -Wl,--no-as-needed -nostdlib)
  target_link_libraries(alias_${name} PRIVATE softnpu)
  list(APPEND SOFTNPU_ALIAS_TARGETS alias_${name})
endforeach()

# pyACL: the Python module `acl`, on the stable ABI, so that one file serves every Python.
find_path(PYTHON_INCLUDE Python.h HINTS ${Python3_INCLUDE_DIRS}
          PATHS /usr/include/python3.10 /usr/include/python3.11 /usr/include/python3.12 /usr/include/python3.13)
if(PYTHON_INCLUDE)
  add_library(pyacl MODULE pyacl/acl.c)
  target_include_directories(pyacl SYSTEM PRIVATE ${PYTHON_INCLUDE})
  target_include_directories(pyacl PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(pyacl PRIVATE ${WARNING_FLAGS})
  target_compile_definitions(pyacl PRIVATE _GNU_SOURCE Py_LIMITED_API=0x030A0000)
  target_link_libraries(pyacl PRIVATE softnpu)
  set_target_properties(pyacl PROPERTIES PREFIX "" OUTPUT_NAME acl SUFFIX .abi3.so BUILD_WITH_INSTALL_RPATH ON
                        INSTALL_RPATH "$ORIGIN:$ORIGIN/../../lib64")
  set(PYACL_TARGET pyacl)
else()
  message(WARNING "no Python.h: the module `acl` is not built (apt install python3-dev)")
endif()

add_executable(softnpu_launcher tools/softnpu.c tools/layout.c)
add_executable(softnpu_smi tools/smi.c runtime/usage_file.c runtime/soc.c runtime/variable.c)
foreach(tool softnpu_launcher softnpu_smi)
  target_link_libraries(${tool} PRIVATE softnpu_flags)
endforeach()
set_target_properties(softnpu_launcher PROPERTIES OUTPUT_NAME softnpu)
set_target_properties(softnpu_smi PROPERTIES OUTPUT_NAME softnpu-smi)

# BUILD/toolkit. Libraries are links, so that a rebuild needs nothing here.
set(TOOLKIT ${CMAKE_BINARY_DIR}/toolkit)
foreach(folder lib64 bin python/site-packages opp/vendors runtime/lib64 compiler/lib64 toolkit)
  file(MAKE_DIRECTORY ${TOOLKIT}/${folder})
endforeach()
foreach(name softnpu ${SOFTNPU_ALIASES})
  file(CREATE_LINK ../../lib/lib${name}.so ${TOOLKIT}/lib64/lib${name}.so SYMBOLIC)
endforeach()
# To link against, as with the vendor's toolkit: -I include, -L devlib -lascendcl. (The libraries in lib64 are empty, and
# linkers do not look through them.)
file(MAKE_DIRECTORY ${TOOLKIT}/devlib)
foreach(name ${SOFTNPU_ALIASES})
  file(WRITE ${TOOLKIT}/devlib/lib${name}.so "/* GNU ld script */\nINPUT ( ${CMAKE_BINARY_DIR}/lib/libsoftnpu.so )\n")
endforeach()
file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/include ${TOOLKIT}/include SYMBOLIC)
file(CREATE_LINK ../../../lib/acl.abi3.so ${TOOLKIT}/python/site-packages/acl.abi3.so SYMBOLIC)
foreach(tool softnpu softnpu-smi)
  file(CREATE_LINK ../../bin/${tool} ${TOOLKIT}/bin/${tool} SYMBOLIC)
endforeach()
# The plugin's profiler runs msprof, and wants it and a msprof.py at the vendor's places below tools/.
set(PROFILER ${TOOLKIT}/tools/profiler)
add_executable(msprof tools/msprof.c)
target_compile_options(msprof PRIVATE ${WARNING_FLAGS})
set_target_properties(msprof PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROFILER}/bin)
file(CREATE_LINK ../tools/profiler/bin/msprof ${TOOLKIT}/bin/msprof SYMBOLIC)
file(WRITE ${PROFILER}/profiler_tool/analysis/msprof/msprof.py
     "import os\nimport sys\n\nmsprof = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../bin/msprof')\nos.execv(msprof, [msprof, *sys.argv[1:]])\n")
set(CANN_VERSION 9.1.0)
foreach(package opp runtime compiler toolkit)
  file(WRITE ${TOOLKIT}/${package}/version.info "Version=${CANN_VERSION}\nversion_dir=${CANN_VERSION}\n")
endforeach()
file(WRITE ${TOOLKIT}/version.cfg "toolkit_running_version=[${CANN_VERSION}:${CANN_VERSION}]\n")
file(WRITE ${TOOLKIT}/ascend_toolkit_install.info
     "package_name=Ascend-cann-toolkit\nversion=${CANN_VERSION}\ninnerversion=softnpu-${PROJECT_VERSION}\narch=${CMAKE_SYSTEM_PROCESSOR}\nos=linux\n")
configure_file(tools/set_env.sh.in ${TOOLKIT}/set_env.sh @ONLY)
add_custom_target(toolkit ALL DEPENDS softnpu softnpu_launcher softnpu_smi msprof ${SOFTNPU_ALIAS_TARGETS} ${PYACL_TARGET})
