/* The judge's way through it all: world, digest, sibling, attempts, scenes, controls, digest again. */
#include "verify/judge.h"

#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/paths.h"
#include "verify/exempt.h"
#include "verify/report.h"
#include "verify/scene.h"

static uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void judge_tally(const struct judge *j, struct judge_tally *ret) {
        *ret = (struct judge_tally){0};
        for (size_t i = 0; i < j->count; i++) {
                if (!j->chosen[i])
                        continue;
                ret->promised += j->findings[i].verdict == VERDICT_PROMISED;
                ret->otherwise += j->findings[i].verdict == VERDICT_OTHERWISE;
                ret->open += j->findings[i].verdict == VERDICT_OPEN;
                ret->untried += j->findings[i].verdict == VERDICT_UNTRIED || j->findings[i].verdict == VERDICT_PENDING;
                ret->permitted += j->findings[i].verdict == VERDICT_PERMITTED;
                ret->inapplicable += j->findings[i].verdict == VERDICT_INAPPLICABLE;
                ret->witnessed += j->findings[i].witnessed;
        }
        ret->checks = ret->promised + ret->otherwise + ret->open + ret->untried;
}

bool judge_sees_inside(const struct judge *j) {
        return !launch_in_box(j) || exempt_driver(j->options.driver) == JUDGED_DOCKER;
}

bool judge_starts_elsewhere(const struct judge *j) {
        return j->options.against || exempt_driver(j->options.driver) == JUDGED_DOCKER;
}

bool judge_good(const struct judge *j) {
        bool asked[GROUP_COUNT] = {0}, tried[GROUP_COUNT] = {0};

        for (size_t i = 0; i < j->count; i++) {
                enum verdict v = j->findings[i].verdict;
                enum group g = check_at(i)->group;

                if (!j->chosen[i])
                        continue;
                if (v == VERDICT_OPEN)
                        return false;
                asked[g] = asked[g] || v != VERDICT_INAPPLICABLE;
                tried[g] = tried[g] || v == VERDICT_PROMISED || v == VERDICT_OTHERWISE || v == VERDICT_PERMITTED;
        }
        if (j->broken || !digest_same(&j->before, &j->after))
                return false;
        for (size_t g = 0; g < GROUP_COUNT; g++)
                if (asked[g] && !tried[g])
                        return false;
        return true;
}

/* Is name among the words of the list? Each word must be a check's name. */
static int choose_only(struct judge *j, struct err *err) {
        for (const char *at = j->options.only; at && *at;) {
                char name[64];
                size_t n = strcspn(at, ","), i;

                (void)snprintf(name, sizeof name, "%.*s", (int)MIN(n, sizeof name - 1), at);
                if (!check_find(name, &i)) {
                        (void)err_set(err, ERR_INPUT, "there is no check '%s'", name);
                        return err_hint(err, "`stockade verify --list` shows them");
                }
                j->chosen[i] = true;
                at += n + (at[n] == ',');
        }
        return 0;
}

static int choose(struct judge *j, struct err *err) {
        j->count = check_count();
        if (j->count > JUDGE_CHECKS_MAX)
                return err_set(err, ERR_LIMIT, "the table has more checks than there is room for");
        int r = exempt_check(err);
        if (r == 0 && j->options.only)
                r = choose_only(j, err);
        for (size_t i = 0; r == 0 && !j->options.only && i < j->count; i++) {
                const struct check *c = check_at(i);

                j->chosen[i] = j->options.fast    ? (c->flags & CHECK_FAST) != 0
                               : j->options.quick ? !c->scene || (c->flags & CHECK_QUICK) != 0
                                                  : true;
        }
        for (size_t i = 0; r == 0 && i < j->count; i++) {
                const char *why = j->chosen[i] ? exempt_why(j->options.driver, check_at(i)->name) : NULL;

                if (why) {
                        j->findings[i].verdict = VERDICT_INAPPLICABLE;
                        (void)snprintf(j->findings[i].why, sizeof j->findings[i].why, "%s", why);
                }
        }
        return r;
}

bool judge_tries(const struct judge *j, size_t i) {
        return j->chosen[i] && j->findings[i].verdict != VERDICT_INAPPLICABLE;
}

static void play_scenes(struct judge *j) {
        size_t all = 0, done = 0;

        for (size_t i = 0; i < j->count; i++)
                all += judge_tries(j, i) && check_at(i)->scene;
        for (size_t i = 0; i < j->count; i++) {
                const struct check *c = check_at(i);
                uint64_t start = now_ms();

                if (!judge_tries(j, i) || !c->scene)
                        continue;
                progress_show(c->does, done++, all);
                c->scene(j, c, &j->findings[i]);
                j->findings[i].ms = (unsigned)(now_ms() - start);
                if (j->findings[i].verdict == VERDICT_PENDING)
                        finding_untried(&j->findings[i], "the scene came to no verdict");
                controls_conclude(j, i);
        }
}

/* What is not a sandbox's doing: folders to watch, and the judge's own processes. */
static void name_own(struct judge *j) {
        j->watched[0] = j->world.folder;
        j->watched[1] = "/run/stockade";
        j->ours[0] = (int)j->world.victim;
        j->ours[1] = (int)j->world.listener;
        j->ours[2] = (int)j->daemon.pid;
}

int judge_does_not_start(const struct judge *j, const struct outcome *o, struct err *err) {
        const char *text = o->err.data && o->err.size ? o->err.data : "it says nothing", *hint = strstr(text, "hint: ");

        if (str_starts(text, "stockade: "))
                text += strlen("stockade: ");
        (void)err_set(err, ERR_REFUSED, "the sandbox does not start (status %d): %.*s", o->status,
                      (int)MIN(strcspn(text, "\n"), (size_t)400), text);
        if (hint)
                return err_hint(err, "%.*s", (int)MIN(strcspn(hint + 6, "\n"), (size_t)400), hint + 6);
        return err_hint(err, j->options.against ? "try the command with the probe by hand"
                                                : "`stockade doctor` says what this host lacks");
}

/* A run that makes what is kept for later ones: compiled plans, prepared trees. */
static int warm_up(struct judge *j, struct err *err) {
        _cleanup_outcome_ struct outcome o = {0};
        const char *const argv[] = {"{probe}", "list", NULL};
        const struct launch l = {.where = LAUNCH_INSIDE, .argv = argv};

        int r = launch_run(j, &l, &o, err);
        if (r < 0)
                return r;
        if (o.status == 0 && (!o.out.data || !strstr(o.out.data, check_at(0)->name))) {
                (void)err_set(err, ERR_REFUSED, "the sandbox does not run the command that is put behind it");
                return err_hint(err, "its output has to be passed on, too");
        }
        if (o.status == 0 && launch_has_options(j) && !j->options.fast) {
                /* and one with a network: the first on a host makes the kernel load modules, with settings of theirs */
                _cleanup_outcome_ struct outcome ignored = {0};
                const char *const options[] = {"--allow", "good.test", NULL};
                const struct launch network = {.where = LAUNCH_INSIDE, .argv = argv, .options = options};

                (void)launch_run(j, &network, &ignored, NULL);
        }
        return o.status == 0 ? 0 : judge_does_not_start(j, &o, err);
}

bool judge_settled(struct judge *j, struct digest *now) {
        bool same = false;

        for (int i = 0; i < 16 && !same; i++) {
                launch_reap(j); /* what a sandbox's keeper leaves is ours to bury */
                same = digest_settle(&j->before, now, j->watched, j->ours, 300);
        }
        return same;
}

/* The digest to compare with: taken when what earlier runs left to be taken apart is gone, and two in a row are equal.
 */
static int take_before(struct judge *j, struct err *err) {
        uint64_t end = now_ms() + 3000;

        while (now_ms() < end) {
                _cleanup_(digest_free) struct digest again = {0};

                launch_reap(j);
                int r = digest_take(&j->before, j->watched, j->ours, err);
                if (r < 0)
                        return r;
                (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
                r = digest_take(&again, j->watched, j->ours, err);
                if (r < 0)
                        return r;
                if (digest_same(&j->before, &again) && j->before.parts[DIGEST_PROCESSES].size == 0)
                        return 0;
                digest_free(&j->before);
        }
        return digest_take(&j->before, j->watched, j->ours, err);
}

static int judge_in_world(struct judge *j, struct err *err) {
        progress_show("making a world to attack", 0, 0);
        world_fact(&j->world, "writable", WORLD_WRITABLE);
        int r = launch_in_box(j) ? daemon_start(j, err) : 0;
        if (r == 0)
                r = warm_up(j, err);
        if (r < 0)
                return r;
        name_own(j);
        if (!j->options.fast)
                r = take_before(j, err);
        if (r == 0 && !j->options.fast)
                r = sibling_start(j, err);
        if (r < 0)
                return r;
        progress_show("quick attempts, streams being pipes", 0, 0);
        r = attempts_make(j, ATTEMPTS_WITNESSED, err);
        if (r == 0)
                r = attempts_make(j, ATTEMPTS_ALONE, err);
        if (r == 0 && !j->options.fast && !j->options.quick && !j->options.against) {
                progress_show("quick attempts, on a terminal", 0, 0);
                r = attempts_make(j, ATTEMPTS_TERMINAL, err);
        }
        if (r == 0 && !j->options.fast) {
                progress_show("the same attempts without a sandbox", 0, 0);
                controls_make(j);
        }
        sibling_end(j);
        if (r == 0)
                play_scenes(j);
        if (r == 0 && !j->options.fast)
                records_capture(j);
        scene_end(j->world.nonce);
        if (j->options.against)
                scene_litter(j->world.nonce);
        if (!j->options.fast)
                (void)judge_settled(j, &j->after);
        return r;
}

int judge_all(struct judge *j, struct err *err) {
        uint64_t start = now_ms();
        time_t now = time(NULL);
        struct tm tm;

        j->uid = geteuid();
        (void)strftime(j->start, sizeof j->start, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        int r = choose(j, err);
        if (r == 0)
                r = paths_helper("stockade-probe", j->probe, sizeof j->probe, err);
        if (r == 0 && !j->options.against)
                r = profile_read(j, err);
        if (r == 0 && j->options.report)
                r = keep_check_report(j->options.report, err);
        if (r < 0)
                return r;
        if (!j->options.fast && keep_open(j, err) < 0)
                j->folder[0] = '\0'; /* the report says that nothing was kept */
        facts_host(j);
        r = world_make(&j->world, j->probe, err);
        if (r < 0)
                return r;
        r = judge_in_world(j, err);
        world_remove(&j->world);
        progress_clear();
        j->wall_ms = (unsigned)(now_ms() - start);
        return r;
}
