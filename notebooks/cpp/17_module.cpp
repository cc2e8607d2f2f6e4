// A Python module in C++: total(list) adds up a list of floats.
#include <Python.h>

static PyObject* total(PyObject*, PyObject* list) {
  double sum = 0;
  const Py_ssize_t size = PyList_Size(list);
  if (size < 0) return nullptr;  // not a list: the exception is set
  for (Py_ssize_t i = 0; i < size; ++i) sum += PyFloat_AsDouble(PyList_GetItem(list, i));
  return PyErr_Occurred() ? nullptr : PyFloat_FromDouble(sum);
}

static PyMethodDef methods[] = {{"total", total, METH_O, nullptr}, {}};
static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "total", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit_total() { return PyModule_Create(&module); }
