/* foreach.h - FOR_EACH(M, (a, b, c)) expands to M(a) M(b) M(c), for up to 48 elements. */
#ifndef SOFTNPU_FOREACH_H
#define SOFTNPU_FOREACH_H

#define FE_PARENS ()
#define FE_EXPAND(...) FE_E3(FE_E3(FE_E3(FE_E3(__VA_ARGS__))))
#define FE_E3(...) FE_E2(FE_E2(FE_E2(FE_E2(__VA_ARGS__))))
#define FE_E2(...) FE_E1(FE_E1(FE_E1(FE_E1(__VA_ARGS__))))
#define FE_E1(...) __VA_ARGS__
#define FE_HELPER(macro, a1, ...) macro(a1) __VA_OPT__(FE_AGAIN FE_PARENS(macro, __VA_ARGS__))
#define FE_AGAIN() FE_HELPER
#define FE_STRIP(...) __VA_ARGS__
#define FE_CALL(macro, ...) FE_EXPAND(FE_HELPER(macro, __VA_ARGS__))
#define FOR_EACH(macro, list) FE_CALL(macro, FE_STRIP list)

#endif
