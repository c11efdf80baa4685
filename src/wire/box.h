/* What the program of a box is started with (docs/protocol/driver.md): shared by the cell, which starts it, and by the
 * drivers. */
#pragma once

#include "wire/guest.h"
#include "wire/report.h"

enum {
        BOX_REPORT_FD = REPORT_FD,
        BOX_LISTEN_FD = GUEST_LISTEN_FD,
        BOX_TREE_FD,
        BOX_PLAN_FD,
        BOX_FOLDER_FD,
        BOX_FD_END, /* nothing else is open, from here on */
};

/* An empty folder in every tree that is made for a box: what a driver has to put into the tree goes on top of it. */
#define BOX_PLACE "/run/stockade/box"

/* What the guest says first on every connection to its keeper, where it was given it on its standard input: others
 * inside could dial too. */
#define BOX_SECRET_SIZE 16
