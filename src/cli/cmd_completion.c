/* `stockade completion SHELL` prints what a shell needs to complete our command lines. The shell then asks us what
 * could stand in a place (`stockade completion --words WORD…`), so that there is one source: the tables, the --help of
 * verbs that have none, and the daemon for names.
 *
 * One line per word, with a tab and a description where there is one. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "cli/client.h"
#include "cli/cmd.h"
#include "cli/tell.h"
#include "cli/verbs.h"

struct options {
        struct args_common common;
        bool words;
};

static const struct args_option completion_options[] = {
        {"words", 0, NULL, "for the scripts: what could stand in the last of these words", ARGS_FLAG,
         offsetof(struct options, words)},
};

const struct args_verb completion_verb = {
        .name = "completion",
        .words = "bash | zsh | fish",
        .summary = "print what a shell needs to complete our command lines",
        .about = "For bash: source <(stockade completion bash); for zsh: the same with zsh; for fish: stockade "
                 "completion "
                 "fish | source. Installed packages have it in place.",
        .flags = ARGS_LOCAL,
        .least = 1,
        .most = SIZE_MAX,
        .what = {WHAT_CHOICE},
        .choices = "bash zsh fish",
        .options = completion_options,
        .count = ELEMENTSOF(completion_options),
};

static const char bash_script[] =
        "_stockade() {\n"
        "    local line word\n"
        "    COMPREPLY=()\n"
        "    while IFS= read -r line; do\n"
        "        word=${line%%$'\\t'*}\n"
        "        if [ \"$word\" = @files ]; then\n"
        "            compopt -o filenames 2>/dev/null\n"
        "            mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
        "        elif [ -n \"$word\" ]; then\n"
        "            COMPREPLY+=(\"$word\")\n"
        "            case $word in *[=:]) compopt -o nospace 2>/dev/null ;; esac\n"
        "        fi\n"
        "    done < <(\"${COMP_WORDS[0]}\" completion --words -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
        "}\n"
        "complete -F _stockade stockade\n";

static const char zsh_script[] =
        "#compdef stockade\n"
        "_stockade() {\n"
        "    local line word about\n"
        "    local -a words_found\n"
        "    while IFS= read -r line; do\n"
        "        word=${line%%$'\\t'*}\n"
        "        about=${line#*$'\\t'}\n"
        "        if [[ $word == @files ]]; then\n"
        "            _files\n"
        "        elif [[ $about != $word ]]; then\n"
        "            words_found+=(\"${word//:/\\\\:}:$about\")\n"
        "        elif [[ -n $word ]]; then\n"
        "            words_found+=(\"${word//:/\\\\:}\")\n"
        "        fi\n"
        "    done < <(${words[1]} completion --words -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
        "    _describe stockade words_found\n"
        "}\n"
        "if [ \"$funcstack[1]\" = _stockade ]; then _stockade; else compdef _stockade stockade; fi\n";

static const char fish_script[] =
        "function __stockade_words\n"
        "    set -l words (commandline -opc)\n"
        "    set -l found (command stockade completion --words -- $words[2..-1] (commandline -ct) 2>/dev/null)\n"
        "    for line in $found\n"
        "        if test \"$line\" = @files\n"
        "            __fish_complete_path (commandline -ct)\n"
        "        else\n"
        "            echo $line\n"
        "        end\n"
        "    end\n"
        "end\n"
        "complete -c stockade -f -a '(__stockade_words)'\n";

/* --- words ---------------------------------------------------------------------------------------------------- */

static void offer(const char *word, const char *about, const char *prefix) {
        if (!str_starts(word, prefix))
                return;
        if (about && about[0])
                (void)printf("%s\t%s\n", word, about);
        else
                (void)puts(word);
}

static void offer_list(const char *list, const char *prefix) {
        char word[64];

        for (size_t n; *list; list += n + (list[n] == ' ')) {
                n = strcspn(list, " ");
                (void)snprintf(word, sizeof word, "%.*s", (int)n, list);
                offer(word, NULL, prefix);
        }
}

/* Names that the daemon knows. One that does not answer at once knows none. */
static void offer_names(const char *verb, const char *list, const char *about, const char *prefix) {
        const struct args_common o = {0};
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF, .patience = 1000};
        struct json_walk w;
        struct err err;
        const char *result;
        char id[64], name[128], text[64];

        talk_begin(&q, verb);
        if (talk_ask(&t, &o, &q, &result, &err) < 0 || !json_walk_begin(&w, result, list))
                return;
        while (json_walk_next(&w)) {
                (void)tell_text(id, sizeof id, w.value, "id");
                (void)tell_text(name, sizeof name, w.value, "name");
                (void)tell_text(text, sizeof text, w.value, about);
                offer(str_eq(name, "-") ? id : name, text, prefix);
        }
}

/* What another program of ours prints: the options in its help, or the first words of its lines. */
static void offer_output(char *const *argv, bool options, const char *prefix) {
        _cleanup_free_ char *text = calloc(1, 64 * 1024);
        int ends[2];

        if (!text || pipe2(ends, O_CLOEXEC) < 0)
                return;
        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                (void)dup2(ends[1], STDOUT_FILENO);
                (void)dup2(ends[1], STDERR_FILENO);
                (void)execv("/proc/self/exe", argv);
                _exit(EXIT_FAILED);
        }
        (void)close(ends[1]);
        (void)fd_read_full(ends[0], text, 64 * 1024 - 1);
        (void)close(ends[0]);
        if (pid > 0)
                (void)waitpid(pid, NULL, 0);
        for (const char *p = text; *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] == '\n')) {
                static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
                const char *word = options ? strstr(p, "--") : p;
                char found[64];

                if (!word || (options && word > p + strcspn(p, "\n")))
                        continue;
                (void)snprintf(found, sizeof found, "%.*s", (int)strspn(word, letters), word);
                if (strlen(found) > 2)
                        offer(found, NULL, prefix);
        }
}

static void offer_what(enum args_what what, const struct args_verb *v, const char *prefix) {
        char *const profiles[] = {(char *)(uintptr_t) "stockade", (char *)(uintptr_t) "profile",
                                  (char *)(uintptr_t) "list", NULL};

        switch (what) {
        case WHAT_SANDBOX:
                offer_names("list", "sandboxes", "state", prefix);
                break;
        case WHAT_SNAPSHOT:
                offer_names("snapshots", "snapshots", "sandbox", prefix);
                break;
        case WHAT_ORIGIN:
                offer_names("snapshots", "snapshots", "sandbox", prefix);
                offer_names("list", "sandboxes", "state", prefix);
                break;
        case WHAT_IMAGE:
                offer_names("images", "images", "about", prefix);
                break;
        case WHAT_PROFILE:
                offer_output(profiles, false, prefix);
                (void)puts("@files");
                break;
        case WHAT_PLACE:
                offer_names("list", "sandboxes", "state", prefix);
                (void)puts("@files");
                break;
        case WHAT_FILE:
                (void)puts("@files");
                break;
        case WHAT_CHOICE:
                offer_list(v->choices, prefix);
                break;
        case WHAT_TEXT:
        default:
                break;
        }
}

/* --- where we are in the line --------------------------------------------------------------------------------- */

static const struct args_option *option_of(const struct args_verb *v, const char *word) {
        const struct args_option *o;

        for (size_t i = 0; (o = args_option(v, i)); i++)
                if ((word[1] == '-' && str_eq(word + 2, o->name)) ||
                    (word[1] != '-' && o->letter && word[strlen(word) - 1] == o->letter))
                        return o;
        return NULL;
}

/* The words behind the verb; the last is the one to be completed. */
static void complete_verb(const struct args_verb *v, char **words, size_t count) {
        const char *last = words[count - 1];
        size_t place = 0;
        char option[64];
        const struct args_option *o;

        for (size_t i = 0; i + 1 < count; i++) {
                o = words[i][0] == '-' && words[i][1] ? option_of(v, words[i]) : NULL;
                if (o && o->argument) {
                        if (i + 2 == count) {
                                offer_what(o->what, v, last);
                                return;
                        }
                        i++;
                } else if (words[i][0] != '-')
                        place++;
        }
        if (last[0] == '-' && !((v->flags & ARGS_COMMAND) && place > 0))
                for (size_t i = 0; (o = args_option(v, i)); i++) {
                        (void)snprintf(option, sizeof option, "--%s", o->name);
                        offer(option, o->help, last);
                }
        else if (place < v->most)
                offer_what(v->what[place > 0], v, last);
}

static void complete(char **words, size_t count) {
        while (count > 2 && str_eq(words[0], "--server") && setenv("STOCKADE_SERVER", words[1], 1) == 0) {
                words += 2;
                count -= 2;
        }
        if (count <= 1) {
                const char *prefix = count == 1 ? words[0] : "";
                for (const struct verb *v = verbs; v->name; v++)
                        offer(v->name, v->args ? v->args->summary : v->help, prefix);
                if (prefix[0] == '-')
                        offer("--server", "ask a daemon elsewhere", prefix);
                return;
        }
        const struct verb *v = verbs_find(words[0]);
        if (v && v->args)
                complete_verb(v->args, words + 1, count - 1);
        else if (v && words[count - 1][0] == '-') {
                char *const help[] = {(char *)(uintptr_t) "stockade", words[0], (char *)(uintptr_t) "--help", NULL};
                offer_output(help, true, words[count - 1]);
        } else
                (void)puts("@files");
}

int cmd_completion(int argc, char **argv) {
        static const struct {
                const char *shell, *script;
        } scripts[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
        struct options o = {0};
        struct err err = {0};
        int status;

        /* the words may look like options of ours: they follow a "--" */
        if (!client_begin(&completion_verb, &argc, argv, &o, &status))
                return status;
        if (o.words) {
                complete(argv + 1, (size_t)argc);
                return 0;
        }
        for (size_t i = 0; i < ELEMENTSOF(scripts); i++)
                if (str_eq(scripts[i].shell, argv[1]) && argc == 1) {
                        (void)fputs(scripts[i].script, stdout);
                        return 0;
                }
        (void)err_set(&err, ERR_INPUT, "completion is there for bash, zsh and fish");
        return talk_failed(NULL, &o.common, &err);
}
