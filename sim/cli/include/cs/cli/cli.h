/**
 * @file cli.h
 * The program.
 */
#ifndef CS_CLI_CLI_H
#define CS_CLI_CLI_H

/** Run `clustersim ARGS`; returns the process exit status (INTERFACE.md). May also exit() itself, for --help
 *  and wrong usage. */
int cs_cli_main(int argc, char **argv);

#endif
