"""What is watched: the objects behind API names, and the events that tell of their calls.

Python functions and built-in ones are seen by the interpreter's profile hook. Operators and attributes of tensors are
not calls to the interpreter: a torch function mode sees those. A call counts as the test's own when the frame that
makes it belongs to a test or a helper of torch.testing, else as inside torch.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import threading
import types
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

HERE = os.path.dirname(os.path.abspath(__file__))
TORCH = os.path.dirname(os.path.abspath(torch.__file__))
# Decorators of torch's own functions stand between a caller and what it calls.
WRAPPERS = ("_compile.py", "_dynamo/eval_frame.py", "utils/_contextlib.py")
PASSED_OVER = (HERE, *(os.path.join(TORCH, name) for name in WRAPPERS))
TESTING = os.path.join(TORCH, "testing", "_internal")
OPERATOR_OF = {"__rmul__": "mul", "__radd__": "add", "__rsub__": "sub", "__rtruediv__": "div", "__rpow__": "pow"}


def find(name: str) -> tuple[Any, Any]:
    """The object that a dotted name stands for, and the class it was found in (None for functions and classes)."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            at: Any = importlib.import_module(".".join(parts[:cut]))
        except Exception:  # noqa: BLE001 - not a module, or one that this machine cannot import
            continue
        owner = None
        for part in parts[cut:]:
            owner = at if inspect.isclass(at) else None
            at = inspect.getattr_static(at, part) if owner is not None and part in dir(at) else getattr(at, part)
        return at, owner
    raise AttributeError(name)


def unwrapped(function: Any) -> list[types.CodeType]:
    """Code objects that run when the function is called, its wrappers' included last."""
    codes, seen = [], set()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        if isinstance(function, (staticmethod, classmethod)):
            function = function.__func__
        elif isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif isinstance(function, types.FunctionType):
            codes.append(function.__code__)
            function = getattr(function, "__wrapped__", None)
        else:
            function = getattr(function, "__wrapped__", None)
    return codes


class Targets:
    """Lookup tables from what events carry to API names."""

    def __init__(self, names: list[str]) -> None:
        self.codes: dict[types.CodeType, list[tuple[str, Any]]] = {}
        self.builtins: dict[int, tuple[Any, list[str]]] = {}
        self.tensor_methods: dict[str, list[str]] = {}
        self.methods: dict[str, list[tuple[str, Any]]] = {}
        self.tensor_attributes: dict[str, list[str]] = {}
        self.unobservable: dict[str, str] = {}
        for name in names:
            try:
                self._add(name, *find(name))
            except AttributeError:
                self.unobservable[name] = "this release does not have it"

    def _add_code(self, name: str, code: types.CodeType, kind: Any = None) -> None:
        self.codes.setdefault(code, []).append((name, kind))

    def _add_builtin(self, name: str, target: Any) -> None:
        self.builtins.setdefault(id(target), (target, []))[1].append(name)

    def _add_class(self, name: str, kind: type) -> None:
        for method in ("__init__", "__new__", "apply"):
            function = inspect.getattr_static(kind, method, None)
            codes = unwrapped(function)
            if codes and (method != "apply" or issubclass(kind, torch.autograd.Function)):
                self._add_code(name, codes[-1], kind)
                return
        self.unobservable[name] = "instances are made in C"

    def _add(self, name: str, target: Any, owner: Any) -> None:
        leaf = name.rpartition(".")[2]
        if isinstance(target, property):
            target = target.fget
        if inspect.isclass(target):
            self._add_class(name, target)
        elif owner is not None and leaf in ("__init__", "__new__"):
            self._add_class(name, owner)
        elif owner is not None and issubclass(owner, torch.Tensor):
            if isinstance(target, (types.GetSetDescriptorType, types.MemberDescriptorType)):
                self.tensor_attributes.setdefault(leaf, []).append(name)
            else:
                self.tensor_methods.setdefault(leaf, []).append(name)
        elif codes := unwrapped(target):
            self._add_code(name, codes[-1], owner)  # wrappers may share one code object
        elif isinstance(target, (types.MethodDescriptorType, types.ClassMethodDescriptorType)):
            self.methods.setdefault(leaf, []).append((name, owner))
        elif callable(target) and isinstance(target, (types.BuiltinFunctionType, types.WrapperDescriptorType)):
            self._add_builtin(name, target)
        elif owner is not None and hasattr(owner, leaf) and callable(target):
            self.methods.setdefault(leaf, []).append((name, owner))
        elif callable(target) and type(target).__call__ is not None and unwrapped(type(target).__call__):
            self._add_code(name, unwrapped(type(target).__call__)[-1], target)
        else:
            self.unobservable[name] = f"a {type(target).__name__}, not something that is called"


class Record:
    """Calls of one API within one test."""

    def __init__(self) -> None:
        self.calls = self.inside = self.tensors = 0
        self.grad = False

    def facts(self) -> dict[str, Any]:
        return {"calls": self.calls, "inside": self.inside, "tensors": self.tensors, "grad": self.grad}


def leaves(value: Any, depth: int = 0) -> list[torch.Tensor]:
    """Tensors in a value, at most a few levels down."""
    if isinstance(value, torch.Tensor):
        return [value]
    if depth < 3 and isinstance(value, (list, tuple)):
        return [t for item in value[:16] for t in leaves(item, depth + 1)]
    if depth < 3 and isinstance(value, dict):
        return [t for item in list(value.values())[:16] for t in leaves(item, depth + 1)]
    return []


def needs_grad(tensor: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunction():
        return bool(tensor.requires_grad) and tensor.grad_fn is not None


class Watch:
    """Records while it is entered, in this thread and those that it starts."""

    def __init__(self, targets: Targets, mode: bool) -> None:
        self.targets, self.use_mode = targets, mode
        self.records: dict[str, Record] = {}
        self.backward = 0
        self.local = threading.local()
        self.mode = Mode(self)
        self.engine_code = unwrapped(torch.autograd.backward)[:1]
        self.grad_code = unwrapped(torch.autograd.grad)[:1]

    def __enter__(self) -> Watch:
        if self.use_mode:
            self.mode.__enter__()
        threading.setprofile(self.event)
        sys.setprofile(self.event)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        if self.use_mode:
            self.mode.__exit__(*error)

    def count(self, name: str, frame: types.FrameType | None, tensors: bool) -> Record:
        record = self.records.setdefault(name, Record())
        while frame is not None and frame.f_code.co_filename.startswith(PASSED_OVER):
            frame = frame.f_back
        path = frame.f_code.co_filename if frame is not None else ""
        own = not path.startswith(TORCH) or path.startswith(TESTING)
        record.calls += own
        record.inside += not own
        record.tensors += tensors
        return record

    def follow(self, record: Record, value: Any) -> None:
        """Marks the record when a gradient flows back into a result."""
        if record.grad:
            return
        for tensor in leaves(value):
            try:
                if needs_grad(tensor):
                    tensor.register_hook(functools.partial(self._flowed, record))
            except Exception:  # noqa: BLE001 - a subclass without hooks: nothing is claimed of it
                continue

    @staticmethod
    def _flowed(record: Record, grad: Any) -> None:
        record.grad = True

    def event(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            self._built_in(frame, arg)
        elif event == "c_return" or event == "c_exception":
            self.local.pending = None
        elif event == "call":
            self._python(frame)
        elif event == "return" and frame.f_code in self.targets.codes:
            for name, _kind in self.targets.codes[frame.f_code]:
                if name in self.records:
                    self.follow(self.records[name], arg)

    def _python(self, frame: types.FrameType) -> None:
        code = frame.f_code
        if frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(HERE):
            return  # the mode passes the call on: it was counted when it was made
        if code in self.engine_code or code in self.grad_code:
            self.backward += 1
        for name, kind in self.targets.codes.get(code, ()):
            first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
            if isinstance(kind, type):
                right = isinstance(first, kind) or (isinstance(first, type) and issubclass(first, kind))
                if first is not None and not right and code.co_varnames[0] in ("self", "cls"):
                    continue
            elif kind is not None and first is not kind:
                continue
            arguments = [
                frame.f_locals.get(v) for v in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2]
            ]
            self.count(name, frame.f_back, bool(leaves(arguments)))
        if self.targets.tensor_methods and code.co_name in self.targets.tensor_methods:
            first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
            if isinstance(first, torch.Tensor) and code.co_filename == os.path.join(TORCH, "_tensor.py"):
                for name in self.targets.tensor_methods[code.co_name]:
                    self.count(name, frame.f_back, True)

    def _built_in(self, frame: types.FrameType, function: Any) -> None:
        name = getattr(function, "__name__", "")
        self.local.pending = name
        if frame.f_code.co_filename.startswith(HERE):
            return
        owner = getattr(function, "__self__", None)
        if isinstance(owner, torch.Tensor):
            for api in self.targets.tensor_methods.get(name, ()):
                self.count(api, frame, True)
        found = self.targets.builtins.get(id(function))
        if found is not None and found[0] is function:
            for api in found[1]:
                self.count(api, frame, False)  # arguments are the mode's to see
        for api, kind in self.targets.methods.get(name, ()):
            if isinstance(kind, type) and isinstance(owner, kind):
                self.count(api, frame, False)


class Mode(TorchFunctionMode):
    """Sees what is no call to the interpreter: a + b, x.grad; and the results of built-in functions."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        pending = getattr(self.watch.local, "pending", None)
        self.watch.local.pending = None
        result = func(*args, **kwargs)
        for record in self._records(func, args, pending):
            record.tensors += bool(leaves(args) or leaves(kwargs))
            self.watch.follow(record, result)
        return result

    def _records(self, func: Any, args: Any, pending: str | None) -> list[Record]:
        targets, watch = self.watch.targets, self.watch
        name = getattr(func, "__name__", "")
        frame = sys._getframe(2)
        if name == "__get__":
            attribute = getattr(getattr(func, "__self__", None), "__name__", "")
            return [watch.count(api, frame, False) for api in targets.tensor_attributes.get(attribute, ())]
        found = targets.builtins.get(id(func))
        names = list(found[1]) if found is not None else []
        if args and isinstance(args[0], torch.Tensor) and not names:
            method = OPERATOR_OF.get(name, name.strip("_") if name.startswith("__") else name)
            if method.startswith("i") and name.startswith("__i") and method[1:] + "_" in targets.tensor_methods:
                method = method[1:] + "_"
            names = [*targets.tensor_methods.get(name, ())] or [*targets.tensor_methods.get(method, ())]
            if pending is None and names and not isinstance(func, types.FunctionType):
                return [watch.count(api, frame, False) for api in names]
        return [watch.records[api] for api in names if api in watch.records]
