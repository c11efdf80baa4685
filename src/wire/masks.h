/* What every plan covers in /proc: files that are readable by anyone and say more about the host than a sandbox should
 * know. The rest is read-only, and what only root may read is refused to an id that is not the host's root.
 *
 * The policy compiler writes a step for each; the warden refuses a plan that lacks one. */
#pragma once

#define PLAN_MASKS                                                                                                     \
        "/proc/acpi", "/proc/asound", "/proc/cmdline", "/proc/interrupts", "/proc/kallsyms", "/proc/keys",             \
                "/proc/modules", "/proc/scsi"
