/* page.h - the page's own files, put into the program at build time (embed.cmake). */
#ifndef CONCORD_REPORT_PAGE_H
#define CONCORD_REPORT_PAGE_H

/* X(identifier): concord/report/page/page.html, page.css, ...; each ends with a NUL. */
#define PAGE_FILES(X) X(page_html) X(page_css) X(words_js) X(model_js) X(views_js) X(page_js)

#define X(id) extern const unsigned char page_file_##id[];
PAGE_FILES(X)
#undef X

#endif
