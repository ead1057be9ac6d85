"""What can be said of Python programs without running them.

Requests come as lines of JSON on standard input, and one answer to each goes to
standard output as a line of JSON, behind one line that says who answers. Programs
are parsed and compiled, never executed. Standard library alone, CPython 3.8 to
3.13.
"""

import ast
import codecs
import hashlib
import io
import json
import re
import sys
import tokenize
import warnings

MILESTONES = [
    "imported packages",
    "loaded data",
    "defined model",
    "training loss:",
    "trained model",
    "testing loss:",
    "predicted test labels",
]
IMPORTED, LOADED, DEFINED, TRAINING, TRAINED, TESTING, PREDICTED = MILESTONES

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = FUNCTIONS + (ast.ClassDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
WITHS = (ast.With, ast.AsyncWith)
LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)


class Unreadable(Exception):
    """A program that does not parse: why, and the line, 0 for none."""

    def __init__(self, why, line=0):
        super().__init__(why)
        self.why, self.line = why, line


def parse(source):
    """The tree of a program that the interpreter would start to run."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source.encode("utf-8")).readline)
        if codecs.lookup(encoding).name not in ("utf-8", "utf-8-sig"):  # utf8 is one of its names
            raise Unreadable("it declares the encoding %s" % encoding, 1)
        text = without_mark(source)
        # Rules that are no grammar, such as a return outside a function, are checked by compiling.
        compile(text, "<program>", "exec", dont_inherit=True)
        return ast.parse(text)
    except SyntaxError as e:
        raise Unreadable("%s: %s" % (type(e).__name__, e.msg), e.lineno or 0)
    except (ValueError, RecursionError, MemoryError, OverflowError, SystemError) as e:
        raise Unreadable("%s: %s" % (type(e).__name__, e))


def without_mark(source):
    return source[1:] if source.startswith("\ufeff") else source


def bound_names(tree):
    """Names that the program binds anywhere, imports apart from all else."""
    bound, imported = set(), {}
    for node in ast.walk(tree):
        kind = type(node).__name__
        if kind == "Name" and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef"):
            bound.add(node.name)
        elif kind == "arg":
            bound.add(node.arg)
        elif kind in ("ExceptHandler", "MatchAs", "MatchStar", "TypeVar", "ParamSpec", "TypeVarTuple"):
            if node.name:
                bound.add(node.name)
        elif kind == "MatchMapping":
            if node.rest:
                bound.add(node.rest)
        elif kind == "Import":
            for a in node.names:
                name, full = (a.asname, a.name) if a.asname else (a.name.split(".")[0],) * 2
                imported.setdefault(name, set()).add(full)
        elif kind == "ImportFrom":
            for a in node.names:
                module = "." * node.level + (node.module or "")
                imported.setdefault(a.asname or a.name, set()).add(module + "." + a.name)
    return bound, imported


# ---- Two programs that differ in prints alone ----

READERS = {"len", "float", "int", "str", "round"}


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def plain(node, bound):
    """Whether an expression is one of those that a print may be inserted with."""
    kind = type(node).__name__
    if kind == "Constant":
        return True
    if kind == "Name":
        return True
    if kind == "Attribute":
        return plain(node.value, bound)
    if kind == "Subscript":
        return plain(node.value, bound) and plain(node.slice, bound)
    if kind == "Index":  # Python 3.8
        return plain(node.value, bound)
    if kind in ("Slice", "ExtSlice", "Tuple", "JoinedStr", "FormattedValue"):
        return all(plain(child, bound) for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr_context))
    if kind == "UnaryOp":
        return isinstance(node.op, (ast.USub, ast.UAdd)) and plain(node.operand, bound)
    if kind == "BinOp":
        return isinstance(node.op, (ast.Add, ast.Sub, ast.Div, ast.Mod)) and plain(node.left, bound) and plain(node.right, bound)
    if kind == "Call":
        if not all(plain(a, bound) for a in node.args) or not all(k.arg and plain(k.value, bound) for k in node.keywords):
            return False
        f = node.func
        if isinstance(f, ast.Name):
            return f.id in READERS and f.id not in bound and not node.keywords
        if isinstance(f, ast.Attribute) and f.attr == "format":
            return is_text(f.value)
        return isinstance(f, ast.Attribute) and f.attr == "item" and not node.args and not node.keywords and plain(f.value, bound)
    return False


def plain_print(node, bound):
    """Whether a statement may have been inserted."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)):
        return False
    call = node.value
    if call.func.id != "print" or "print" in bound:
        return False
    for k in call.keywords:
        if k.arg != "flush" or not isinstance(k.value, ast.Constant):
            return False
    return all(plain(a, bound) for a in call.args)


def equal(a, b):
    """Whether two trees are the same, positions left out."""
    todo = [(a, b)]
    while todo:
        a, b = todo.pop()
        if type(a) is not type(b):
            return False
        if isinstance(a, ast.AST):
            todo.extend((getattr(a, f, None), getattr(b, f, None)) for f in a._fields)
        elif isinstance(a, list):
            if len(a) != len(b):
                return False
            todo.extend(zip(a, b))
        elif isinstance(a, (float, complex)):
            if repr(a) != repr(b):
                return False
        elif a != b:
            return False
    return True


def has_docstring(node):
    return isinstance(node, FUNCTIONS + (ast.ClassDef, ast.Module)) and bool(node.body) and is_docstring(node.body[0])


def is_docstring(statement):
    return isinstance(statement, ast.Expr) and is_text(statement.value)


def difference(a, b, bound):
    """What the second tree has other than the first and prints; None for nothing."""
    if type(a) is not type(b):
        return b
    if has_docstring(a) != has_docstring(b):
        return b.body[0]
    for field in a._fields:
        x, y = getattr(a, field, None), getattr(b, field, None)
        items = (x if isinstance(x, list) else []) + (y if isinstance(y, list) else [])
        if items and isinstance(items[0], ast.stmt):
            found = difference_of_blocks(x, y, bound)
        elif items and type(items[0]).__name__ in ("ExceptHandler", "match_case"):
            found = b if len(x) != len(y) else next(filter(None, (difference(p, q, bound) for p, q in zip(x, y))), None)
        else:
            found = None if equal(x, y) else b
        if found is not None:
            return found
    return None


def difference_of_blocks(a, b, bound):
    matched, last = 0, None
    for statement in b:
        if matched < len(a):
            found = difference(a[matched], statement, bound)
            if found is None:
                matched, last = matched + 1, None
                continue
            last = last or found
        if not plain_print(statement, bound):
            return last or statement
    return None if matched == len(a) else a[matched]


def same_but_for_prints(original, instrumented):
    bound, imported = bound_names(original)
    found = difference(original, instrumented, bound | set(imported))
    if found is None:
        return ""
    return "line %d is neither the original's nor a print that may be inserted" % getattr(found, "lineno", 0)


# ---- Fingerprints ----

# Fields that say nothing of what a program does, or are hints of types.
LEFT_OUT = {"ctx", "kind", "type_comment", "type_ignores", "type_params", "annotation", "returns", "simple"}


class Shapes:
    """The tree of a program, normalised, as nodes of a label and children."""

    def __init__(self, tree):
        self.bound, imported = bound_names(tree)
        self.imported = {n: min(full) for n, full in imported.items() if len(full) == 1 and n not in self.bound}
        self.bound |= set(imported) - set(self.imported)
        self.functions = {n.name for n in ast.walk(tree) if isinstance(n, FUNCTIONS)}
        methods = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                methods |= {f for f in node.body if isinstance(f, FUNCTIONS)}
        self.methods = methods
        self.root = tree

    def identifier(self, name):
        """A name that the program gives, as a variable; any other as it is."""
        if name in self.bound:
            return ("variable", name)
        return self.imported.get(name, name)

    def label(self, node):
        """What a node itself says: parts, of which variables are pairs."""
        kind = type(node).__name__
        if kind == "Constant":
            v = node.value
            return [kind, repr(v) if v is None or v is Ellipsis or isinstance(v, bool) else type(v).__name__]
        if kind == "Name":
            return [kind, self.identifier(node.id)]
        parts = ["Assign" if kind == "AnnAssign" else kind]
        for field in node._fields:
            value = getattr(node, field, None)
            if field in LEFT_OUT or value is None or isinstance(value, ast.AST):
                continue
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, ast.AST) or item is None:
                    continue
                named = isinstance(item, str) and (
                    kind in ("arg", "Global", "Nonlocal", "ExceptHandler", "MatchAs", "MatchStar", "MatchMapping", "ClassDef")
                    or kind in ("FunctionDef", "AsyncFunctionDef")
                    and node not in self.methods
                )
                parts.append(self.identifier(item) if named else str(item))
        if kind == "alias":
            parts = [kind, node.name]  # whatever it is called here
        return parts

    def children(self, node):
        out = []
        for field, value in ast.iter_fields(node):
            if field in LEFT_OUT:
                continue
            if isinstance(value, ast.AST):
                out.append(self.bare(value))
            elif isinstance(value, list) and (not value or isinstance(value[0], (ast.AST, type(None)))):
                kept = [self.bare(v) for v in value if v is not None and not self.says_nothing(v)]
                if value and not kept and isinstance(value[0], ast.stmt):
                    kept = [ast.Pass()]
                out.extend(kept)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.functions:
            for k in node.keywords:  # a parameter of the program's own
                k.own = True
        return out

    @staticmethod
    def bare(node):
        """A node without the wrappers that Python 3.8 has around subscripts."""
        while type(node).__name__ == "Index":
            node = node.value
        if type(node).__name__ == "ExtSlice":
            return ast.Tuple(elts=node.dims, ctx=ast.Load())
        return node

    @staticmethod
    def says_nothing(node):
        kind = type(node).__name__
        return is_docstring(node) or kind == "TypeAlias" or kind == "AnnAssign" and node.value is None

    def counts(self):
        """How often each subtree of height 1 to 3 is there, by its hash."""
        nodes, todo = {}, [self.root]  # of a node: its label and children
        while todo:
            node = todo.pop()
            children = self.children(node)
            label = self.label(node)
            if getattr(node, "own", False):
                label = ["keyword", ("variable", node.arg)]
            nodes[id(node)] = (label, children, node)
            todo.extend(children)
        counts = {}
        for _, children, node in nodes.values():
            tallest = 1 if not children else 3 if any(nodes[id(c)][1] for c in children) else 2
            for height in range(1, tallest + 1):
                variables, parts = {}, []
                self.write(nodes, node, height, variables, parts)
                text = "".join(parts).encode("utf-8", "backslashreplace")
                h = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
                counts[h] = counts.get(h, 0) + 1
        return sorted(counts.items())

    def write(self, nodes, node, height, variables, parts):
        label, children, _ = nodes[id(node)]
        parts.append("(")
        for part in label:
            if isinstance(part, tuple):
                part = "$%d" % variables.setdefault(part[1], len(variables))
            parts.append("%d:%s" % (len(part), part))
        if height > 1:
            for child in children:
                self.write(nodes, child, height - 1, variables, parts)
        parts.append(")")


# ---- Prints of milestones ----

LOADERS = re.compile(
    r"^(numpy\.(load|loadtxt|genfromtxt|fromfile)|(json|pickle|joblib)\.load|csv\.(reader|DictReader)|scipy\.io\.loadmat"
    r"|scipy\.sparse\.load_npz|h5py\.File|torchvision\.datasets\.\w+|datasets\.load_(dataset|from_disk)"
    r"|sklearn\.datasets\.(load|fetch)_\w+|polars\.scan_\w+|datatable\.fread)$"
    r"|(^|\.)read_(csv|json|parquet|table|excel|feather|pickle|hdf|sql|fwf|stata|orc|xml|text|bytes)$"
)
MODELS = re.compile(
    r"^sklearn\.(linear_model|ensemble|svm|tree|neighbors|naive_bayes|neural_network|gaussian_process|discriminant_analysis"
    r"|pipeline|dummy|kernel_ridge|multiclass|multioutput|calibration|isotonic|semi_supervised|cross_decomposition)\.([A-Z]\w*|make_pipeline)$"
    r"|\w(Classifier|Regressor|Ranker|SearchCV)$"
    r"|^(xgboost|lightgbm)\.train$|^catboost\.CatBoost$"
    r"|^torch\.nn\.(Sequential|Linear|Bilinear|LSTM|GRU|RNN|Transformer\w*)$|^torchvision\.models\.|^timm\.create_model$"
    r"|^transformers\.\w*(Model|For)\w*\.from_(pretrained|config)$"
    r"|^(keras|tensorflow)\.(\w+\.)*(Sequential|Model|applications\.\w+)$"
    r"|^statsmodels\.(\w+\.)*([A-Z]\w*|ols|glm|logit|probit|poisson)$"
)
NO_MODELS = re.compile(r"^sklearn\.(pipeline\.FeatureUnion|neighbors\.\w*(Transformer|Tree))$|(Scaler|Encoder|Imputer)$")
BASES = {"Module", "LightningModule", "Model", "Sequential", "BaseEstimator", "ClassifierMixin", "RegressorMixin"}
FITTERS = {"fit", "fit_generator", "fit_one_cycle", "fine_tune", "finetune"}
TRANSFORMERS = re.compile(
    r"(Scaler|Encoder|Vectorizer|Imputer|Transformer|Tokenizer|Binarizer|Discretizer|Features|PCA|SVD|NMF|UMAP|SelectKBest|Selector|SMOTE|Union)$"
)
TRANSFORMER_NAMES = re.compile(r"scal|enc(oder)?s?$|vectori|impute|tfidf|pca|svd|^le\d*$|^ohe$|^cv$|tokeni|binariz|transformer|preproc", re.I)
METRICS = re.compile(
    r"^sklearn\.metrics\.(?!make_scorer|get_scorer|\w*_curve|pairwise|[A-Z])\w+$|(^|\.)cross_val(_score|idate)$"
    r"|(^|\.)(\w+_score|log_?loss|mean_(squared|absolute)\w*_error|(\w*_)?(rmsle|rmse|mse|mae|auc|accuracy|logloss|qwk|kappa))$"
)
PREDICTORS = {"predict", "predict_proba", "predict_log_proba", "decision_function", "predict_generator"}
HELD_OUT = re.compile(r"test|val|hold|oof|dev(?!ice)|eval", re.I)
TRAIN = re.compile(r"train|_tr$|_trn$", re.I)
TEST = re.compile(r"test|submi|(^|_)sub(_|$)", re.I)
HOT = {"__getitem__", "__len__", "__iter__", "__next__", "__call__", "forward", "call", "collate_fn"}


def here(node, kinds):
    """Nodes of some kinds in an expression or statement, what is only defined there left out."""
    todo = [node]
    while todo:
        node = todo.pop()
        if isinstance(node, kinds):
            yield node
        todo.extend(c for c in ast.iter_child_nodes(node) if not isinstance(c, SCOPES))


def words(nodes):
    """Names, attributes and constant strings in expressions."""
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Attribute):
                yield node.attr
            elif is_text(node):
                yield node.value


def mentions(nodes, what):
    return any(what.search(w) for w in words(nodes))


def arguments(call):
    return call.args + [k.value for k in call.keywords]


class Program:
    """What the names of a program stand for, as far as its text tells."""

    def __init__(self, tree):
        self.tree = tree
        self.bound, imported = bound_names(tree)
        self.imported = {n: min(full) for n, full in imported.items()}
        self.models, self.transformers, self.classes = set(), set(), set()
        self.gives = {}  # what functions of the program return: "data", "model", "metric", "prediction"
        functions, assigned, classes = [], [], []
        for n in ast.walk(tree):
            if isinstance(n, FUNCTIONS):
                functions.append(n)
            elif isinstance(n, ast.ClassDef):
                classes.append(n)
            elif isinstance(n, (ast.Assign, ast.AnnAssign)) and n.value is not None:
                calls = list(here(n.value, ast.Call))
                if calls:  # else its names stand for nothing that is looked for
                    names = {terminal(t) for t in (n.targets if isinstance(n, ast.Assign) else [n.target])} - {""}
                    assigned.append((names, calls, isinstance(n.value, ast.Call)))
        for _ in range(4):  # a name that stands for a name that stands for …: no further
            self.classes |= {c.name for c in classes if any(self.is_base(b) for b in c.bases)}
            for names, calls, is_call in assigned:
                if any(self.is_model(c) for c in calls):
                    self.models |= names
                elif is_call and any(TRANSFORMERS.search(self.dotted(c.func)) for c in calls):
                    self.transformers |= names
            for f in functions:
                self.gives.setdefault(f.name, set()).update(self.given(f))

    def is_base(self, base):
        name = self.dotted(base).split(".")[-1]
        return name in BASES or name in self.classes

    def dotted(self, node):
        if isinstance(node, ast.Name):
            return self.imported.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            return self.dotted(node.value) + "." + node.attr
        return "?"

    def given(self, function):
        """What a function returns."""
        out = set()
        for statement in function.body:
            if isinstance(statement, SCOPES):
                continue
            for node in here(statement, (ast.Return,) + WITHS):
                if isinstance(node, ast.Return) and node.value is not None:
                    for c in here(node.value, ast.Call):
                        out |= self.meanings(c)
                    if isinstance(node.value, ast.Name) and node.value.id in self.models:
                        out.add("model")
                elif isinstance(node, WITHS) and any(True for _ in here(node, ast.Return)):
                    if any("data" in self.meanings(c) for i in node.items for c in here(i.context_expr, ast.Call)):
                        out.add("data")
        return out

    def is_model(self, call):
        name = self.dotted(call.func)
        if NO_MODELS.search(name):
            return False
        return bool(MODELS.search(name)) or name in self.classes or "model" in self.gives.get(name, ())

    def meanings(self, call):
        """What a call gives: data, a model, a metric, predictions."""
        name = self.dotted(call.func)
        out = set(self.gives.get(name, ())) if isinstance(call.func, ast.Name) else set()
        if LOADERS.search(name) or name in ("open", "gzip.open", "io.open", "codecs.open") and self.reads(call):
            out.add("data")
        if self.is_model(call):
            out.add("model")
        if METRICS.search(name):
            out.add("metric")
        if isinstance(call.func, ast.Attribute):
            receiver = terminal(call.func.value)
            if call.func.attr in PREDICTORS:
                out.add("prediction")
            if call.func.attr == "evaluate" or call.func.attr == "score" and receiver in self.models:
                out.add("metric")
        return out

    @staticmethod
    def reads(call):
        modes = call.args[1:2] + [k.value for k in call.keywords if k.arg == "mode"]
        return all(is_text(m) and not set(m.value) & set("wax+") for m in modes) and not mentions(call.args[:1], TEST_OUTPUT)

    def fits(self, call):
        """Whether a call trains a model."""
        name = self.dotted(call.func)
        if name in ("xgboost.train", "lightgbm.train"):
            return True
        if not isinstance(call.func, ast.Attribute):
            return False
        receiver, attr = call.func.value, call.func.attr
        if attr == "train":
            return "trainer" in terminal(receiver).lower()
        if attr not in FITTERS:
            return False
        if any(self.is_model(c) for c in here(receiver, ast.Call)) or terminal(receiver) in self.models:
            return True
        if terminal(receiver) in self.transformers or TRANSFORMER_NAMES.search(terminal(receiver)):
            return False
        if any(TRANSFORMERS.search(self.dotted(c.func)) for c in here(receiver, ast.Call)):
            return False
        return len(call.args) > 1 or any(k.arg in ("y", "epochs") for k in call.keywords)

    def milestones(self, part):
        """The milestones that a statement, or a part of one, brings."""
        out = set()
        for call in here(part, ast.Call):
            means, given = self.meanings(call), arguments(call)
            if "data" in means:
                out.add(LOADED)
            if "model" in means:
                out.add(DEFINED)
            if "metric" in means:
                crossed = "cross_val" in self.dotted(call.func)
                out.add(TRAINING if mentions(given, TRAIN) and not mentions(given, HELD_OUT) and not crossed else TESTING)
            if ("prediction" in means or terminal(call.func) in self.models) and mentions(given, TEST):
                out.add(PREDICTED)
            if self.fits(call):
                out.add(TRAINED)
                if any(k.arg in ("validation_data", "validation_split", "eval_set", "epochs", "evals", "valid_sets") for k in call.keywords):
                    out.add(TRAINING)
        return out

    def of_loop(self, loop):
        """The milestones that a loop as a whole brings."""
        out, attrs = set(), set()
        for call in here(loop, ast.Call):
            if isinstance(call.func, ast.Attribute):
                attrs.add(call.func.attr)
            if "data" in self.meanings(call):
                out.add(LOADED)
        if {"backward", "step"} <= attrs:
            out |= {TRAINING, TRAINED}
        for inner in here(loop, (ast.For, ast.AsyncFor)):
            if mentions([inner.iter], TEST) and any(terminal(c.func) in self.models for c in here(inner, ast.Call)):
                out.add(PREDICTED)
        return out

    def writes_submission(self, statement):
        """Whether a statement, its blocks left out, begins to write a submission."""
        if isinstance(statement, WITHS):
            parts = [i.context_expr for i in statement.items]
        else:
            parts = [] if hasattr(statement, "body") else [statement]
        return any(
            self.dotted(c.func).split(".")[-1] in ("to_csv", "savetxt", "open") and mentions([c], TEST_OUTPUT) and "data" not in self.meanings(c)
            for part in parts
            for c in here(part, ast.Call)
        )


TEST_OUTPUT = re.compile(r"submi", re.I)


def terminal(node):
    """The last name of an expression: model of self.model and of models[0] the list's."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
ENDS = re.compile(rb"^[ \t\f]*;?[ \t\f]*(#.*)?$")


class Inserter:
    """Puts prints between the lines of a program."""

    def __init__(self, source, tree):
        self.tree = tree
        self.lines = LINE.findall(source.encode("utf-8"))
        self.indents = [len(line) - len(line.lstrip(b" \t\f")) for line in self.lines]
        self.program = Program(tree)
        self.inserted = []  # (lines before it, its text without an end, milestone)
        self.predicted = False
        self.writers = []  # (block of a submission's writing)

    def run(self):
        self.imports()
        self.block(self.tree.body, False, False)
        if not self.predicted and any(m == TRAINED for _, _, m in self.inserted):
            for group in self.writers:
                self.put(group, PREDICTED, before=True)
        ending = re.search(rb"(\r\n|\r|\n)$", self.lines[0]) if self.lines else None
        ending = ending.group() if ending else b"\n"
        out, numbers, places = [], [], {}
        for at, text, milestone in self.inserted:
            places.setdefault(at, []).append((text, milestone))
        for at in range(len(self.lines) + 1):
            if at > 0:
                out.append(self.lines[at - 1])
            for text, milestone in places.get(at, []):
                if out and not out[-1].endswith((b"\n", b"\r")):
                    out[-1] += ending
                out.append(text + ending)
                numbers.append([len(out), MILESTONES.index(milestone)])
        return b"".join(out).decode("utf-8"), numbers

    def imports(self):
        """The print behind the last import of the program's top level."""
        last, any_package = None, False
        for group in self.groups(self.tree.body):
            for s in group:
                block = s.body if isinstance(s, ast.Try) else [s]
                if all(isinstance(x, (ast.Import, ast.ImportFrom)) for x in block):
                    last = group
                    any_package = any_package or any(getattr(x, "module", "") != "__future__" for x in block)
        if any_package:
            self.put(last, IMPORTED)

    def prefix(self, statement):
        """What stands before a statement on its line if it begins one; else None."""
        line = min([statement.lineno] + [d.lineno for d in getattr(statement, "decorator_list", [])])
        if statement.col_offset > self.indents[line - 1]:
            return None
        continued = line > 1 and self.lines[line - 2].rstrip(b"\r\n").endswith(b"\\")
        return None if continued else self.lines[line - 1][: statement.col_offset]

    def groups(self, block):
        """The statements of a block, those on one line together."""
        out = []
        for s in block:
            if out and self.prefix(s) is None:
                out[-1].append(s)
            else:
                out.append([s])
        return out

    def put(self, group, milestone, before=False, value=""):
        """Inserts a print behind a group of statements, or before it, where there is a place."""
        indent = self.prefix(group[0])
        if indent is None:
            return
        if before:
            at = group[0].lineno - 1
        else:
            last = group[-1]
            rest = self.lines[last.end_lineno - 1][last.end_col_offset :].rstrip(b"\r\n")
            if not ENDS.match(rest) or any(isinstance(s, LEAVES) for s in group):
                return
            at = last.end_lineno
        text = 'print("%s"%s)' % (milestone, value and ", " + value)
        self.inserted.append((at, indent + text.encode("ascii"), milestone))
        self.predicted = self.predicted or milestone == PREDICTED

    def block(self, block, in_loop, in_model):
        groups = self.groups(block)
        found = [set().union(*(self.statement(s, in_loop, in_model) for s in g)) for g in groups]
        for i, group in enumerate(groups):
            # Of neighbours that bring the same and nothing else the last says so.
            for m in MILESTONES:
                if m in found[i] and not (i + 1 < len(groups) and found[i] == {m} and m in found[i + 1]):
                    self.put(group, m, value=self.value(group[-1]) if m in (TRAINING, TESTING) else "")
            if any(self.program.writes_submission(s) for s in group):
                self.writers.append(group)

    def value(self, statement):
        """The name that a metric has just been given, for the print to show."""
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name) and target.id.isascii() and "metric" in self.program.meanings(statement.value):
                return target.id
        return ""

    def statement(self, s, in_loop, in_model):
        """Instruments what is inside a statement and returns what it brings as a whole."""
        inner_loop, inner_model, out = in_loop, in_model, set()
        if isinstance(s, LOOPS):
            inner_loop = True
        if isinstance(s, FUNCTIONS):
            if s.name in HOT:
                return out
            inner_loop = False
        if isinstance(s, ast.ClassDef):
            inner_model = s.name in self.program.classes
        before = len(self.inserted)

        blocks = [b for b in (getattr(s, f, None) for f in ("body", "orelse", "finalbody")) if b and isinstance(b, list)]
        blocks += [x.body for f in ("handlers", "cases") for x in getattr(s, f, [])]
        for b in blocks:
            self.block(b, inner_loop, inner_model)
        if isinstance(s, FUNCTIONS + (ast.ClassDef,)):
            return out
        if isinstance(s, LOOPS):
            if not in_loop:
                out |= self.program.of_loop(s)
            if not isinstance(s, ast.While):
                out |= self.program.milestones(s.iter)
        elif isinstance(s, WITHS):
            out |= set().union(*(self.program.milestones(i.context_expr) for i in s.items))
            out -= {m for _, _, m in self.inserted[before:] if m == LOADED}  # the block has said it
        elif not blocks:
            out |= self.program.milestones(s)
        if in_loop:
            out -= {LOADED}
        if in_model:
            out -= {DEFINED}
        return out


# ---- Requests ----

# Of a program that is instrumented: beyond, it would depend on the machine whether it
# is done in time.
MAX_NODES = 200_000


def instrument(source):
    tree = parse(source)
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        return {"text": source, "lines": [], "failed": "it has more than %d nodes" % MAX_NODES}
    text = without_mark(source)
    out, lines = Inserter(text, tree).run()
    try:
        why = same_but_for_prints(tree, parse(out))
    except Unreadable as e:
        why = e.why
    if why:
        return {"text": source, "lines": [], "failed": why}
    return {"text": source[: len(source) - len(text)] + out, "lines": lines}


def answer(request):
    op, source = request["op"], request["source"]
    try:
        if op == "parse":
            return {"nodes": sum(1 for _ in ast.walk(parse(source)))}
        if op == "fingerprint":
            return {"shapes": Shapes(parse(source)).counts()}
        if op == "instrument":
            return instrument(source)
        original = parse(source)
        try:
            return {"why": same_but_for_prints(original, parse(request["other"]))}
        except Unreadable as e:
            return {"why": "the instrumented program does not parse: " + e.why}
    except Unreadable as e:
        return {"error": e.why[:300], "line": e.line}
    except (RecursionError, MemoryError) as e:
        return {"error": "it is nested too deeply or too large: %s" % type(e).__name__, "line": 0}
    except Exception as e:  # of this script: one program must not take the others with it
        return {"error": "the script failed: %s: %s" % (type(e).__name__, e), "line": 0}


def main():
    warnings.simplefilter("ignore")
    out = sys.stdout

    def say(what):
        out.write(json.dumps(what) + "\n")
        out.flush()

    say({"python": ".".join(map(str, sys.version_info[:3]))})
    for line in sys.stdin:
        say(answer(json.loads(line)))


main()
