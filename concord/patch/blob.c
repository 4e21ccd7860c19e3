/* blob.c - git's object ids of file contents. */
#include "concord/patch/patch.h"

#include <openssl/evp.h>
#include <string.h>

void blob_id(struct slice data, bool sha256, char *hex)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    char head[32];
    int head_len = snprintf(head, sizeof head, "blob %zu", data.len) + 1;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (!ctx || !EVP_DigestInit_ex(ctx, sha256 ? EVP_sha256() : EVP_sha1(), NULL) ||
        !EVP_DigestUpdate(ctx, head, (size_t)head_len) || !EVP_DigestUpdate(ctx, data.ptr, data.len) ||
        !EVP_DigestFinal_ex(ctx, digest, &n))
        die("out of memory while hashing");
    EVP_MD_CTX_free(ctx);
    for (unsigned int i = 0; i < n; i++) snprintf(hex + 2 * (size_t)i, 3, "%02x", digest[i]);
}

bool blob_id_is_zero(const char *id)
{
    return *id && strspn(id, "0") == strlen(id);
}

bool blob_id_matches(const char *abbreviated, struct slice data)
{
    size_t n = strlen(abbreviated);
    if (n < 4 || blob_id_is_zero(abbreviated)) return false;
    char hex[PATCH_ID_MAX + 1];
    blob_id(data, n > 40, hex);
    return !strncmp(abbreviated, hex, n);
}
