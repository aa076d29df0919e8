#include "cs/cli/cli.h"

#include "cli_priv.h"

#include "cs/base/text.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define NAMES_MAX 32

void cs__print_version(FILE *out)
{
    (void)fprintf(out, "clustersim %s%s%s%s (%s)\n", CS_VERSION, CS_GIT_DESCRIBE[0] ? " (" : "",
                  CS_GIT_DESCRIBE, CS_GIT_DESCRIBE[0] ? ")" : "", CS_BUILD_INFO);
}

struct cs_report_origin cs__origin(const char *command)
{
    return (struct cs_report_origin){.version = CS_VERSION, .command = command};
}

static void print_help(FILE *out, const char *program, const char *what, const struct cs__command *commands)
{
    (void)fprintf(out, "Usage: %s COMMAND [OPTION...]\n%s\n\nCommands:\n", program, what);
    for (const struct cs__command *command = commands; command->name; command++) {
        char call[96];
        (void)snprintf(call, sizeof call, "%s %s", command->name, command->args);
        (void)fprintf(out, "  %-34s  %s\n", call, command->summary);
    }
    (void)fprintf(out,
                  "\n`%s COMMAND --help` shows a command's options; --version shows the version.\n"
                  "Results go to standard output, everything else to standard error.\n" CS__EXIT_STATUS_DOC
                  "\n",
                  program);
}

static int unknown_command(const char *program, const struct cs__command *commands, const char *name)
{
    const char *names[NAMES_MAX] = {NULL};
    for (int32_t i = 0; i + 1 < NAMES_MAX && commands[i].name; i++) {
        names[i] = commands[i].name;
    }
    const char *near = cs_text_nearest(name, names);
    (void)fprintf(stderr, "%s: error: unknown command '%s'%s%s%s; `%s --help` lists them\n", program, name,
                  near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "", program);
    return CS__EXIT_INPUT;
}

int cs__dispatch(const char *program, const char *what, const struct cs__command *commands, int argc,
                 char **argv)
{
    if (argc < 2) {
        print_help(stderr, program, what, commands);
        return CS__EXIT_INPUT;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-?") == 0 || strcmp(name, "-h") == 0) {
        print_help(stdout, program, what, commands);
        return cs__finish(0);
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        cs__print_version(stdout);
        return cs__finish(0);
    }
    for (const struct cs__command *command = commands; command->name; command++) {
        if (strcmp(command->name, name) == 0) {
            return cs__finish(command->run(argc - 1, argv + 1));
        }
    }
    return unknown_command(program, commands, name);
}

/* A closed standard stream must not become the first file that is opened: what is meant for it fails. */
static void fill_standard_streams(void)
{
    int fd = 0;
    while (fd >= 0 && fd <= STDERR_FILENO) {
        fd = open("/dev/null", O_RDONLY);
    }
    if (fd > STDERR_FILENO) {
        (void)close(fd);
    }
}

int cs_cli_main(int argc, char **argv)
{
    static const struct cs__command commands[] = {
        {"search", "STUDY", "Rank the parallel strategies for a model on a platform", cs__cmd_search},
        {"simulate", "STUDY --strategy S", "One strategy: time, bubble, communication, memory",
         cs__cmd_simulate},
        {"trace", "STUDY --strategy S -o DIR", "Write the ranks' traces: native, Chakra or SMPI",
         cs__cmd_trace},
        {"replay", "DIR --platform P", "Replay traces written by it or by others", cs__cmd_replay},
        {"platform", "generate|show|check", "Make a platform XML, describe one, check one", cs__cmd_platform},
        {"collective", "--platform P --kind K", "One collective, each algorithm", cs__cmd_collective},
        {"sweep", "STUDY --over KEY=LIST", "What if: a table over any study key", cs__cmd_sweep},
        {"plan", "STUDY", "The smallest and cheapest cluster that meets a deadline or budget", cs__cmd_plan},
        {"validate", "CASES.csv", "How far simulated steps are from measured ones", cs__cmd_validate},
        {"calibrate", "CASES.csv", "Fit hardware figures to measured steps", cs__cmd_calibrate},
        {"models", "", "Models that are shipped", cs__cmd_models},
        {"platforms", "", "Platforms that are shipped", cs__cmd_platforms},
        {NULL, NULL, NULL, NULL},
    };
    fill_standard_streams();
    cs__catch_early_signals();
    return cs__dispatch("clustersim",
                        "Simulates the training of large models on clusters of accelerators: which parallel "
                        "strategy is\nfastest, does it fit, where does the time go.",
                        commands, argc, argv);
}
