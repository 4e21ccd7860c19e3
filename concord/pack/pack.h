/* pack.h - the evidence as one archive, and the check of one anywhere.
 *
 * A pax tar with gzip: NAME-evidence/MANIFEST.sha256 (one "hash  path" line a file), its ssh signature where
 * a key was given, and the files: campaign, journal extract, environment locks, facts, patches, reports,
 * commands. The same evidence gives the same bytes but for a signature.
 */
#ifndef CONCORD_PACK_PACK_H
#define CONCORD_PACK_PACK_H

#include "concord/dossier/dossier.h"
#include "concord/run/record.h"

struct pack_file {
    char *path; /* below the archive's folder */
    struct buf data;
};
typedef VEC(struct pack_file) pack_files;
void pack_files_free(pack_files *files);

struct pack_request {
    const struct dossier *dossier;
    const struct run_record *record;
    const char *campaign; /* the campaign's file */
    const char *key;      /* ssh private key, or public key of one that the agent holds; NULL: unsigned */
    const char *out;
};
int pack_write(const struct pack_request *q, struct err *e);

/* What was found wrong; nothing is fine. */
struct pack_verdict {
    strings faults;
    size_t files;
    bool has_signature;
    char *signer; /* what ssh-keygen says of the signature, NULL without one */
};
/* signers: an allowed_signers file (ssh-keygen(1)); NULL: a signature is only checked for being whole. -1
 * when the file cannot be read as an archive. */
int pack_verify(const char *path, const char *signers, struct pack_verdict *v, struct err *e);
void pack_verdict_free(struct pack_verdict *v);

/* ---- between pack's own files ---- */

#define PACK_MANIFEST "MANIFEST.sha256"
#define PACK_SIGNATURE "MANIFEST.sha256.sig"
#define PACK_NAMESPACE "concord-evidence"
int archive_put(const char *path, const char *folder, const pack_files *files, struct err *e);
/* "" while the seal that archive_put adds holds for every byte of the file, else what is wrong. */
int archive_check(const char *path, const char **fault, struct err *e);
int archive_get(const char *path, pack_files *files, struct err *e);
/* Signature of the text as ssh-keygen writes it. */
int sign_text(const char *key, const struct buf *text, struct buf *signature, struct err *e);
/* 0 when it holds; *says (owned) is ssh-keygen's line. */
int sign_check(const struct buf *text, const struct buf *signature, const char *signers, char **says,
               struct err *e);

#endif
