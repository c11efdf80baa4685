/* See host_conf.h. */
#include "cli/host_conf.h"

#include <unistd.h>

#define CONFIG "/etc/stockade/stockade.conf"

const struct conf *host_conf(void) {
        static struct conf conf;
        static bool read;

        if (!read && conf_load(access(CONFIG, F_OK) == 0 ? CONFIG : NULL, &conf, NULL) < 0)
                conf_defaults(&conf);
        read = true;
        return &conf;
}
