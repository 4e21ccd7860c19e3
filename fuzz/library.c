/* library.c - a small shared object: scripts/fuzz.sh compiles the ELF target's seeds from it, also with PAD.
 */
#ifdef PAD
/* Not loaded and large enough to be worth stripping. */
__asm__(".section .pad,\"\",%progbits\n.zero 70000\n");
#endif

extern int puts(const char *text);
int fuzz_library_value = 3;
int fuzz_library_call(int x);

int fuzz_library_call(int x)
{
    return puts("called") + x;
}
