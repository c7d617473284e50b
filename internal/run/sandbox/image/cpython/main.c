/* The only entry into the pinned CPython: python3 LIBRARY SCRIPT.

   Nothing outside decides how it behaves: no environment variable, no flag,
   no site folder, no bytecode written. The hash seed is fixed, because set
   order decides how floats are added up and so would change scores; CPython's
   own main ignores PYTHONHASHSEED when isolated. */

#include <Python.h>
#include <string.h>

static PyStatus append(PyWideStringList *list, const char *path) {
    wchar_t *wide = Py_DecodeLocale(path, NULL);
    if (wide == NULL)
        return PyStatus_NoMemory();
    PyStatus status = PyWideStringList_Append(list, wide);
    PyMem_RawFree(wide);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: python3 LIBRARY SCRIPT\n");
        return 2;
    }
    char *library = argv[1], *script = argv[2];

    PyPreConfig pre;
    PyPreConfig_InitIsolatedConfig(&pre);
    pre.utf8_mode = 1;
    PyStatus status = Py_PreInitialize(&pre);
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);

    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.use_hash_seed = 1;
    config.hash_seed = 0;
    config.site_import = 0;
    config.write_bytecode = 0;
    config.pathconfig_warnings = 0;
    config.install_signal_handlers = 1;
    config.module_search_paths_set = 1;
    config.parse_argv = 0;

    /* Helpers beside the script come first, then the library. */
    char *slash = strrchr(script, '/');
    if (slash != NULL) {
        *slash = '\0';
        status = append(&config.module_search_paths, script);
        *slash = '/';
        if (PyStatus_Exception(status))
            goto fail;
    }
    status = append(&config.module_search_paths, library);
    if (PyStatus_Exception(status))
        goto fail;
    status = PyConfig_SetBytesString(&config, &config.program_name, argv[0]);
    if (PyStatus_Exception(status))
        goto fail;
    status = PyConfig_SetBytesString(&config, &config.executable, argv[0]);
    if (PyStatus_Exception(status))
        goto fail;
    status = PyConfig_SetBytesString(&config, &config.home, "/");
    if (PyStatus_Exception(status))
        goto fail;
    status = PyConfig_SetBytesString(&config, &config.run_filename, script);
    if (PyStatus_Exception(status))
        goto fail;
    status = PyConfig_SetBytesArgv(&config, argc - 2, argv + 2);
    if (PyStatus_Exception(status))
        goto fail;
    status = Py_InitializeFromConfig(&config);
    if (PyStatus_Exception(status))
        goto fail;
    PyConfig_Clear(&config);
    return Py_RunMain();

fail:
    PyConfig_Clear(&config);
    Py_ExitStatusException(status);
}
