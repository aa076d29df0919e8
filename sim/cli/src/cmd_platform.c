#include "cli_priv.h"

int cs__cmd_platform(int argc, char **argv)
{
    static const struct cs__command commands[] = {
        {"generate", "[DESCRIPTION] -o FILE", "Write a cluster as SimGrid platform XML",
         cs__cmd_platform_generate},
        {"show", "PLATFORM", "Size, chip, topology, bandwidths as SimGrid sees them; a drawing",
         cs__cmd_platform_show},
        {"check", "PLATFORM", "Find what would make a simulation wrong", cs__cmd_platform_check},
        {"ranktable", "STUDY --strategy S", "Write a placement as an HCCL rank table",
         cs__cmd_platform_ranktable},
        {NULL, NULL, NULL, NULL},
    };
    return cs__dispatch("clustersim platform", "Make a platform, describe one, check one.", commands, argc,
                        argv);
}
