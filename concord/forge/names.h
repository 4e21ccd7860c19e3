/* names.h - the forges that reviews can be opened on, as campaign files name them. */
#ifndef CONCORD_FORGE_NAMES_H
#define CONCORD_FORGE_NAMES_H

/* In the order of enum forge_id (forge.h). */
#define FORGE_NAMES "gitcode", "gitee", "github", "gitlab"

#endif
