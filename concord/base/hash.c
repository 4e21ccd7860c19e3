/* hash.c - SHA-256 of bytes and of files, by OpenSSL's libcrypto. */
#include "concord/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static EVP_MD_CTX *start(void)
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    if (!c || !EVP_DigestInit_ex(c, EVP_sha256(), NULL)) die("libcrypto offers no SHA-256");
    return c;
}

static void finish(EVP_MD_CTX *c, char out[65])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    EVP_DigestFinal_ex(c, digest, &n);
    EVP_MD_CTX_free(c);
    for (size_t i = 0; i < 32; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

void sha256_hex(const void *data, size_t n, char out[65])
{
    EVP_MD_CTX *c = start();
    EVP_DigestUpdate(c, data, n);
    finish(c, out);
}

int sha256_file(const char *path, char out[65], struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_set(e, "cannot read '%s': %s", path, strerror(errno));
    EVP_MD_CTX *c = start();
    enum { CHUNK = 1 << 20 };
    char *chunk = xmalloc(CHUNK);
    ssize_t n;
    while ((n = read(fd, chunk, CHUNK)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0) EVP_DigestUpdate(c, chunk, (size_t)n);
    int failed = n < 0 ? errno : 0;
    free(chunk);
    close(fd);
    finish(c, out);
    return failed ? err_set(e, "cannot read '%s': %s", path, strerror(failed)) : 0;
}
