/* names.c - the names of torch that the rules know. */
#include "concord/adapt/private.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool in(const char *s, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(s, names[i])) return true;
    return false;
}

static const char *below(const char *s, const char *prefix)
{
    return s && str_starts(s, prefix) ? s + strlen(prefix) : NULL;
}

bool takes_device(const char *resolved)
{
    static const char *const names[] = {
        "tensor",
        "randn",
        "rand",
        "randint",
        "randperm",
        "ones",
        "zeros",
        "empty",
        "full",
        "arange",
        "linspace",
        "logspace",
        "eye",
        "empty_strided",
        "as_tensor",
        "scalar_tensor",
        "range",
        "hann_window",
        "hamming_window",
        "blackman_window",
        "bartlett_window",
        "kaiser_window",
        "tril_indices",
        "triu_indices",
        "empty_permuted",
    };
    const char *name = below(resolved, "torch.");
    return name && in(name, names, COUNT(names));
}

bool makes_data(const char *resolved)
{
    static const char *const names[] = {
        "from_numpy", "Tensor",    "FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor",
        "LongTensor", "IntTensor", "ShortTensor", "CharTensor",   "ByteTensor", "BoolTensor",
    };
    const char *name = below(resolved, "torch.");
    return takes_device(resolved) || (name && in(name, names, COUNT(names)));
}

bool is_torch_module(const char *resolved)
{
    static const char *const others[] = {"Module",
                                         "Parameter",
                                         "ParameterList",
                                         "ParameterDict",
                                         "Buffer",
                                         "UninitializedParameter",
                                         "UninitializedBuffer",
                                         "DataParallel"};
    const char *name = below(resolved, "torch.nn.");
    if (name && str_starts(name, "modules.")) name = strrchr(name, '.') + 1;
    if (!name && (name = below(resolved, "torch.ao.nn."))) name = strrchr(resolved, '.') + 1;
    return name && *name >= 'A' && *name <= 'Z' && !strchr(name, '.') && !in(name, others, COUNT(others));
}

bool has_parameters(const char *resolved)
{
    static const char *const stateless[] = {
        "ReLU",
        "ReLU6",
        "GELU",
        "SiLU",
        "Mish",
        "ELU",
        "CELU",
        "SELU",
        "GLU",
        "Sigmoid",
        "Tanh",
        "Softmax",
        "Softmax2d",
        "LogSoftmax",
        "Softmin",
        "Softplus",
        "Softsign",
        "Hardtanh",
        "Hardswish",
        "Hardsigmoid",
        "LeakyReLU",
        "LogSigmoid",
        "Threshold",
        "Hardshrink",
        "Softshrink",
        "Tanhshrink",
        "RReLU",
        "Identity",
        "Flatten",
        "Unflatten",
        "Fold",
        "Unfold",
        "Dropout",
        "Dropout1d",
        "Dropout2d",
        "Dropout3d",
        "AlphaDropout",
        "FeatureAlphaDropout",
        "MaxPool1d",
        "MaxPool2d",
        "MaxPool3d",
        "AvgPool1d",
        "AvgPool2d",
        "AvgPool3d",
        "LPPool1d",
        "LPPool2d",
        "AdaptiveAvgPool1d",
        "AdaptiveAvgPool2d",
        "AdaptiveAvgPool3d",
        "AdaptiveMaxPool1d",
        "AdaptiveMaxPool2d",
        "AdaptiveMaxPool3d",
        "MaxUnpool1d",
        "MaxUnpool2d",
        "MaxUnpool3d",
        "ZeroPad1d",
        "ZeroPad2d",
        "ZeroPad3d",
        "ConstantPad1d",
        "ConstantPad2d",
        "ConstantPad3d",
        "ReflectionPad1d",
        "ReflectionPad2d",
        "ReflectionPad3d",
        "ReplicationPad1d",
        "ReplicationPad2d",
        "ReplicationPad3d",
        "Upsample",
        "UpsamplingNearest2d",
        "UpsamplingBilinear2d",
        "PixelShuffle",
        "PixelUnshuffle",
        "ChannelShuffle",
        "LocalResponseNorm",
        "CosineSimilarity",
        "PairwiseDistance",
        "MSELoss",
        "L1Loss",
        "SmoothL1Loss",
        "HuberLoss",
        "KLDivLoss",
        "PoissonNLLLoss",
        "GaussianNLLLoss",
        "HingeEmbeddingLoss",
        "CosineEmbeddingLoss",
        "MarginRankingLoss",
        "TripletMarginLoss",
        "SoftMarginLoss",
        "MultiLabelMarginLoss",
        "CTCLoss",
    };
    return is_torch_module(resolved) && !in(strrchr(resolved, '.') + 1, stateless, COUNT(stateless));
}

/* Ascend/pytorch, torch_npu/npu/__init__.py: what it exports under the same name as torch.cuda. */
bool npu_has(const char *name)
{
    static const char *const names[] = {
        "is_available",
        "device_count",
        "current_device",
        "set_device",
        "device",
        "get_device_name",
        "get_device_properties",
        "synchronize",
        "stream",
        "current_stream",
        "default_stream",
        "set_stream",
        "Stream",
        "Event",
        "empty_cache",
        "memory_allocated",
        "max_memory_allocated",
        "memory_reserved",
        "max_memory_reserved",
        "reset_peak_memory_stats",
        "memory_stats",
        "memory_summary",
        "memory_snapshot",
        "mem_get_info",
        "manual_seed",
        "manual_seed_all",
        "seed",
        "seed_all",
        "initial_seed",
        "get_rng_state",
        "set_rng_state",
        "get_rng_state_all",
        "set_rng_state_all",
        "init",
        "is_initialized",
        "amp.autocast",
        "amp.GradScaler",
    };
    return in(name, names, COUNT(names));
}

bool is_tensor_method(const char *name)
{
    static const char *const names[] = {
        "sin",    "cos",     "tan",        "exp",       "log",     "sqrt",      "rsqrt",
        "abs",    "neg",     "relu",       "sigmoid",   "tanh",    "view",      "reshape",
        "clone",  "detach",  "contiguous", "unsqueeze", "squeeze", "transpose", "permute",
        "expand", "flatten", "t",          "matmul",    "mm",      "bmm",       "softmax",
        "clamp",  "float",   "double",     "half",      "pow",     "square",    "requires_grad_",
        "narrow", "sin_",    "exp_",       "cumsum",    "flip",    "roll",      "repeat",
    };
    return in(name, names, COUNT(names));
}
