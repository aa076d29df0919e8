#include "cs/cli/cli.h"

int main(int argc, char **argv)
{
    return cs_cli_main(argc, argv);
}
