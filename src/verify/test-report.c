/* The three reports say the same, nothing that a sandbox said is obeyed in any of them, and what is kept is kept where
 * it should be. The table of checks is this file's own: one row per group. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json-read.h"
#include "base/test.h"
#include "base/text.h"
#include "verify/report-words.h"
#include "verify/table.h"

#define ROW(table, group, name)                                                                                        \
        const struct check table[] = {{name, group, "try " name, L(SECCOMP) | L(CAPS), "EPERM ENOSYS", CONTROL_USER}}; \
        const size_t table##_count = 1
ROW(table_files, GROUP_FILES, "read-file");
ROW(table_network, GROUP_NETWORK, "connect");
ROW(table_gate, GROUP_NETWORK, "pass-gate");
ROW(table_processes, GROUP_PROCESSES, "kill-host");
ROW(table_exhaustion, GROUP_EXHAUSTION, "limit-memory");
ROW(table_state, GROUP_STATE, "leave-file");

/* As judge.c has it, of which nothing else is wanted here. */
bool judge_good(const struct judge *j) {
        struct report_count n;

        report_count(j, GROUP_COUNT, &n);
        return n.open == 0;
}

#define HOSTILE                                                                                                        \
        "</pre></td><script>alert(1)</script>\x1b[2J\x1b]0;x\x07\xff\xc0\xaf\xe2\x80\xae\xc2\x9b"                      \
        "31m&\"'\r\nEND"
#define RECORD                                                                                                         \
        "{\"argv\":[\"sh\",\"<script>\\u001b \\\" caf\xc3\xa9 \xf0\x9f\x98\x80 \xe2\x80\xae\"],\"reason\":\"oom\","    \
        "\"status\":137,\"usage\":{\"wall_us\":5000},\"none\":{},\"empty\":[ ]}"

static struct judge judge;

static void begin(void) {
        memset(&judge, 0, sizeof judge);
        judge.options = (struct judge_options){.driver = "native", .profile = "low"};
        (void)snprintf(judge.profile.name, sizeof judge.profile.name, "low");
        judge.count = check_count();
        for (size_t i = 0; i < judge.count; i++) {
                judge.chosen[i] = true;
                judge.findings[i] = (struct finding){.verdict = VERDICT_PROMISED, .error = "EPERM"};
        }
}

/* No byte or character that a terminal or a browser would obey. */
static bool inert(const char *text) {
        for (const char *line = text; *line;) {
                char one[65536], copy[65536];
                size_t n = strcspn(line, "\n");

                (void)snprintf(one, sizeof one, "%.*s", (int)n, line);
                text_escape(copy, sizeof copy, one);
                if (n >= sizeof one || !str_eq(one, copy))
                        return false;
                line += n + (line[n] == '\n');
        }
        return true;
}

static void test_hostile(void) {
        _cleanup_buf_ struct buf html = {0}, json = {0};
        _cleanup_free_ char *text = NULL;
        char said[1024];
        size_t size = 0;

        begin();
        judge.options.verbose = true;
        judge.options.only = HOSTILE;
        (void)snprintf(judge.host[0].name, sizeof judge.host[0].name, "kernel");
        (void)snprintf(judge.host[0].value, sizeof judge.host[0].value, "%s", HOSTILE);
        judge.allowed.text = (char *)(uintptr_t)RECORD;
        judge.blocked.text = (char *)(uintptr_t) "{\"cut off";
        for (size_t i = 0; i < judge.count; i++) {
                struct finding *f = &judge.findings[i];

                f->verdict = (enum verdict)(VERDICT_PROMISED + i % 5);
                (void)snprintf(f->said, sizeof f->said, "%s", HOSTILE);
                (void)snprintf(f->seen, sizeof f->seen, "%s", HOSTILE);
                (void)snprintf(f->why, sizeof f->why, "%s", HOSTILE);
                (void)snprintf(f->control_said, sizeof f->control_said, "%s", HOSTILE);
                (void)snprintf(f->error, sizeof f->error, "\x1b<b>\xff");
        }
        report_html(&judge, &html);
        report_json(&judge, &json);
        FILE *out = open_memstream(&text, &size);
        report_text(&judge, out);
        (void)fclose(out);
        CHECK(buf_ok(&html) && inert(html.data) && !strstr(html.data, "<script") && !strstr(html.data, "<b>\\x"));
        CHECK(strstr(html.data, "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J"));
        CHECK(buf_ok(&json) && json_check(json.data, json.size, NULL) == 0 && inert(json.data));
        CHECK(json_find_str(json.data, "groups.0.checks.0.said", said, sizeof said) && strstr(said, "\\x1b[2J"));
        CHECK(json_find_str(json.data, "records.allowed.record.argv.1", said, sizeof said) && strstr(said, "café"));
        CHECK(json_find_null(json.data, "records.blocked.record"));
        CHECK(inert(text) && strstr(text, "\\x1b[2J"));
}

static void test_words(void) {
        char text[REPORT_BIG];

        begin();
        CHECK_STR(report_headline(&judge, text, sizeof text), "None of 6 attacks got through this sandbox.");
        judge.findings[0].verdict = VERDICT_PERMITTED;
        judge.findings[1].verdict = VERDICT_OTHERWISE;
        judge.findings[2].verdict = VERDICT_PENDING;
        CHECK_STR(
                report_summary(&judge, text, sizeof text),
                "5 checks: 3 refused as promised, 1 by another layer, 0 OPEN, 1 could not be tried (1 permitted by the "
                "profile)");
        judge.findings[3].verdict = VERDICT_UNTRIED;
        CHECK(strstr(report_headline(&judge, text, sizeof text), "nothing could be tried in: Processes"));
        memcpy(judge.before.hash[0], "a", 2);
        memcpy(judge.after.hash[0], "b", 2);
        judge.findings[3].verdict = VERDICT_PROMISED;
        CHECK(strstr(report_headline(&judge, text, sizeof text), "not as it was before"));
        judge.findings[3].verdict = VERDICT_OPEN;
        CHECK_STR(report_headline(&judge, text, sizeof text), "One of 4 attacks got through this sandbox.");
        memset(judge.findings, 0, sizeof judge.findings);
        CHECK(strstr(report_headline(&judge, text, sizeof text), "No attack could be tried"));
        CHECK(report_left_out(&judge) == NULL);
        judge.chosen[0] = false;
        CHECK(report_left_out(&judge) != NULL);
}

static void test_command(void) {
        _cleanup_buf_ struct buf command = {0};

        begin();
        judge.options.against = "bwrap --ro-bind / / --";
        judge.options.probe_at = "/it's";
        judge.options.quick = true;
        report_command(&judge, &command);
        CHECK_STR(command.data, "stockade verify --driver native --against 'bwrap --ro-bind / / --' --probe-at "
                                "'/it'\\''s' --quick");
}

static void test_record(void) {
        _cleanup_buf_ struct buf pretty = {0}, ascii = {0};

        CHECK(record_good(RECORD) && !record_good("{") && !record_good(NULL));
        record_ascii(RECORD, &ascii);
        CHECK(strstr(ascii.data, "caf\\u00e9 \\ud83d\\ude00 \\u202e\"") && strstr(ascii.data, "\"empty\":[]"));
        CHECK(json_check(ascii.data, ascii.size, NULL) == 0);
        record_pretty("{\"a\":[1,{\"b\":null}],\"c\":{},\"d\":\"{,}\"}", &pretty);
        CHECK_STR(pretty.data, "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ],\n  \"c\": {},\n"
                               "  \"d\": \"{,}\"\n}");
}

static size_t names_in(const char *path) {
        DIR *d = opendir(path);
        size_t n = 0;

        for (struct dirent *e; d && (e = readdir(d));)
                n += e->d_name[0] != '.';
        if (d)
                (void)closedir(d);
        return n;
}

/* Beside the folders, for nobody else's eyes; a link there is replaced and not followed; what is about less than all is
 * not the latest. */
static void check_latest(const char *top) {
        static const char *const names[] = {"latest.json", "latest.html"};
        char path[PATH_MAX], other[PATH_MAX];
        struct err err;
        struct stat st;

        (void)snprintf(other, sizeof other, "%s/precious/file", top);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                (void)snprintf(path, sizeof path, "%s/stockade/verify/%s", top, names[i]);
                CHECK(lstat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0600 && st.st_size > 1000);
                CHECK(unlink(path) == 0 && symlink(other, path) == 0);
        }
        judge.options.only = "read-file";
        CHECK(keep_report(&judge, &err) == 0 && lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
        judge.options.only = NULL;
        judge.options.against = "bwrap";
        CHECK(keep_report(&judge, &err) == 0 && lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
        judge.options.against = NULL;
        CHECK(keep_report(&judge, &err) == 0 && lstat(path, &st) == 0 && S_ISREG(st.st_mode));
        CHECK(stat(other, &st) == 0 && st.st_size == 0);
}

/* As somebody who is not root, so that XDG_STATE_HOME counts. Leaves a folder in /tmp only if it fails. */
static void test_keep(void) {
        char top[] = "/tmp/test-report-XXXXXX", path[256];
        struct err err;
        struct stat st;

        CHECK(mkdtemp(top) != NULL);
        CHECK(geteuid() != 0 || (chown(top, 65534, 65534) == 0 && seteuid(65534) == 0));
        CHECK(setenv("XDG_STATE_HOME", top, 1) == 0);
        begin();
        (void)snprintf(path, sizeof path, "%s/precious", top);
        CHECK(mkdir(path, 0700) == 0);
        (void)snprintf(path, sizeof path, "%s/precious/file", top);
        CHECK(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
        CHECK(keep_open(&judge, &err) == 0);
        (void)snprintf(path, sizeof path, "%s/stockade/verify/20000101-000000-00000000", top);
        CHECK(symlink("../../precious", path) == 0);
        for (int i = 0; i < 25; i++)
                CHECK(keep_open(&judge, &err) == 0);
        (void)snprintf(path, sizeof path, "%s/stockade/verify", top);
        CHECK(names_in(path) == 21); /* and the link, which is not ours to remove */
        (void)snprintf(path, sizeof path, "%s/precious", top);
        CHECK(names_in(path) == 1);

        (void)snprintf(path, sizeof path, "%s/page.html", top);
        judge.options.report = path;
        CHECK(keep_check_report(path, &err) == 0);
        CHECK(keep_record(&judge, &judge.allowed, "allowed", RECORD, &err) == 0);
        CHECK(keep_report(&judge, &err) == 0);
        CHECK(stat(path, &st) == 0 && st.st_size > 10000 && names_in(judge.folder) == 2);
        CHECK(stat(judge.folder, &st) == 0 && (st.st_mode & 0777) == 0700);
        check_latest(top);

        CHECK(keep_check_report("/dev/null", &err) < 0 && strstr(err.text, "not a regular file"));
        CHECK(keep_check_report("/proc/page.html", &err) < 0);
        CHECK(keep_check_report(top, &err) < 0);
        (void)unsetenv("XDG_STATE_HOME");
        (void)unsetenv("HOME");
        CHECK(keep_open(&judge, &err) < 0 && judge.folder[0] == '\0');
        CHECK(keep_record(&judge, &judge.allowed, "allowed", RECORD, &err) == 0 && judge.allowed.path[0] == '\0');
        free(judge.allowed.text);
        CHECK(geteuid() == getuid() || seteuid(0) == 0);
        if (test_failures == 0 && fork() == 0) {
                (void)execl("/bin/rm", "rm", "-r", top, (char *)NULL);
                _exit(1);
        }
        (void)wait(NULL);
}

TEST_MAIN(TEST(test_hostile), TEST(test_words), TEST(test_command), TEST(test_record), TEST(test_keep))
