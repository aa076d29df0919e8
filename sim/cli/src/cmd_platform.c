#include "cli_priv.h"

int cs__cmd_platform(int argc, char **argv)
{
    static const struct cs__command commands[] = {
        {"generate", "-o FILE", "Write a cluster as SimGrid platform XML", cs__cmd_platform_generate},
        {"show", "PLATFORM", "Size, chip, topology, bandwidths as SimGrid sees them", cs__cmd_platform_show},
        {"check", "PLATFORM", "Find what would make a simulation wrong", cs__cmd_platform_check},
        {NULL, NULL, NULL, NULL},
    };
    return cs__dispatch("clustersim platform", "Make a platform, describe one, check one.", commands, argc,
                        argv);
}
