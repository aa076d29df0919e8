/* The store of results: what was handed over is there, whatever happens. */
#include "cs_test.h"

#include "cs/base/text.h"
#include "cs/reports/store.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define VERSION 7

static char path[64];
static struct cs_study study;
static struct cs_run_options options;

static void set_up(void)
{
    struct cs_err err = {0};
    const struct cs_study_source source = {.data_dir = CS_TEST_SOURCE_DIR, .path = "llama3-70b-64"};
    ck_assert_ok(cs_study_load(&study, &source, &err), &err);
    cs_run_options_init(&options);
    snprintf(path, sizeof path, "/tmp/clustersim-test-XXXXXX");
    close(mkstemp(path)); /* an empty file is a new store */
}

static void tear_down(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (int32_t i = 0; i < CS_COUNT(suffixes); i++) {
        char name[96];
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
    cs_study_release(&study);
}

static struct cs_store *open_store(void)
{
    struct cs_err err = {0};
    struct cs_store *store = NULL;
    ck_assert_ok(cs_store_open(&store, path, VERSION, &err), &err);
    ck_assert_ok(cs_store_study(store, &study, &options, &err), &err);
    return store;
}

static void refuses(const char *text)
{
    struct cs_err err = {0};
    struct cs_store *store = NULL;
    ck_assert_int_eq(cs_store_open(&store, path, VERSION, &err), CS_E_INPUT);
    ck_assert_ptr_null(store);
    ck_assert_str_eq(err.file, path);
    ck_assert_msg(strstr(err.text, text) != NULL, "'%s' is not in '%s'", text, err.text);
}

/* The n-th of many strategies, and a result that is its own. */
static struct cs_strategy strategy_of(int32_t n)
{
    struct cs_strategy strategy;
    cs_strategy_init(&strategy);
    strategy.dp = n + 1;
    return strategy;
}

static void save(struct cs_store *store, int32_t n)
{
    struct cs_evaluation evaluation;
    struct cs_strategy strategy = strategy_of(n);
    memset(&evaluation, 0, sizeof evaluation);
    evaluation.outcome = CS_OUTCOME_OK;
    evaluation.simulated = true;
    evaluation.metrics.iteration_s = n + 0.1;
    const struct cs_search_memory *memory = cs_store_memory(store);
    memory->save(memory->context, &strategy, &evaluation);
}

static bool knows(struct cs_store *store, int32_t n)
{
    struct cs_evaluation evaluation;
    struct cs_strategy strategy = strategy_of(n);
    const struct cs_search_memory *memory = cs_store_memory(store);
    bool found = memory->lookup(memory->context, &strategy, &evaluation);
    if (found) {
        ck_assert(evaluation.simulated);
        ck_assert_double_eq(evaluation.metrics.iteration_s, n + 0.1);
    }
    return found;
}

START_TEST(test_remembers)
{
    struct cs_err err = {0};
    struct cs_store *store = open_store();
    ck_assert(!knows(store, 1));
    save(store, 1);
    ck_assert(knows(store, 1));
    cs_store_close(store);
    store = open_store();
    ck_assert(knows(store, 1));
    ck_assert(!knows(store, 2));
    ck_assert_int_eq(cs_store_n_results(store), 1);
    study.training.global_batch *= 2; /* another study */
    ck_assert_ok(cs_store_study(store, &study, &options, &err), &err);
    ck_assert(!knows(store, 1));
    cs_store_close(store);
    cs_store_close(NULL);
}
END_TEST

/* Two at once: the second is told, both keep what they find, and afterwards nobody is there. */
START_TEST(test_is_shared)
{
    struct cs_store *one = open_store();
    struct cs_store *two = open_store();
    ck_assert(!cs_store_is_shared(one));
    ck_assert(cs_store_is_shared(two));
    save(one, 1);
    save(two, 2);
    ck_assert_int_eq(cs_store_n_results(one), 2);
    ck_assert_int_eq(cs_store_n_results(two), 2);
    cs_store_close(one);
    cs_store_close(two);
    two = open_store();
    ck_assert(!cs_store_is_shared(two));
    ck_assert_int_eq(cs_store_n_results(two), 2);
    cs_store_close(two);
}
END_TEST

START_TEST(test_hash_sees)
{
    uint64_t before = cs_store_study_hash(&study, &options);
    struct cs_run_options other = options;
    ck_assert(cs_store_study_hash(&study, &other) == before);
    other.algorithm[CS_COLL_ALL_REDUCE] = CS_ALGO_RING;
    ck_assert(cs_store_study_hash(&study, &other) != before);
    other = options;
    other.fidelity = CS_FIDELITY_FULL;
    ck_assert(cs_store_study_hash(&study, &other) != before);
    study.training.seq_length++;
    ck_assert(cs_store_study_hash(&study, &options) != before);
}
END_TEST

/* Every byte of the training block but the padding between its fields. */
START_TEST(test_hash_sees_all_of_training)
{
    static const size_t pads[][2] = {
#define BETWEEN(a, b)                                                                                        \
    {offsetof(struct cs_training, a) + sizeof study.training.a, offsetof(struct cs_training, b)}
        BETWEEN(optimizer, bucket_bytes),
        BETWEEN(flash_attention, host_bytes_per_s),
        BETWEEN(aggregation_groups, routing_imbalance_frac),
        BETWEEN(separate_gelu, score_bytes),
        BETWEEN(widened_gradients, softmax_multiple),
        {offsetof(struct cs_training, serial_messages) + 1, sizeof(struct cs_training)},
        BETWEEN(host_bytes_per_s, aggregation_groups), /* the list is asked below */
#undef BETWEEN
    };
    struct cs_training training;
    memset(&training, 0, sizeof training);
    uint64_t before = cs_training_hash(CS_HASH_SEED, &training);
    for (size_t at = 0; at < sizeof training; at++) {
        bool pad = false;
        for (int32_t i = 0; i < CS_COUNT(pads); i++) {
            pad = pad || (at >= pads[i][0] && at < pads[i][1]);
        }
        if (!pad) {
            memset(&training, 0, sizeof training);
            ((unsigned char *)&training)[at] = 1;
            ck_assert_msg(cs_training_hash(CS_HASH_SEED, &training) != before, "byte %zu", at);
        }
    }
    memset(&training, 0, sizeof training);
    training.n_fusion = 1;
    uint64_t one = cs_training_hash(CS_HASH_SEED, &training);
    training.fusion[0] = 3;
    ck_assert(one != before && cs_training_hash(CS_HASH_SEED, &training) != one);
}
END_TEST

START_TEST(test_refuses)
{
    struct cs_err err = {0};
    struct cs_store *store = NULL;
    ck_assert_ok(cs_store_open(&store, path, VERSION + 1, &err), &err);
    cs_store_close(store);
    refuses("another version");
    FILE *file = fopen(path, "wb");
    for (int32_t i = 0; i < 2000; i++) {
        fputs("this is a letter, not a store\n", file);
    }
    fclose(file);
    refuses("is no store");
    snprintf(path, sizeof path, "/tmp/no-such-folder/store");
    ck_assert_int_eq(cs_store_open(&store, path, VERSION, &err), CS_E_IO);
}
END_TEST

/* A writer that is killed in the middle of its work: what it said to have handed over is there. */
START_TEST(test_killed)
{
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    pid_t child = fork();
    if (child == 0) {
        struct cs_store *store = open_store();
        for (int32_t n = 0;; n++) {
            save(store, n);
            if (write(fds[1], "x", 1) != 1) {
                _exit(1);
            }
        }
    }
    close(fds[1]);
    int32_t n_said = 0;
    char byte;
    while (n_said < 150 + 37 * _i && read(fds[0], &byte, 1) == 1) {
        n_said++;
    }
    kill(child, SIGKILL);
    while (read(fds[0], &byte, 1) == 1) {
        n_said++;
    }
    waitpid(child, NULL, 0);
    struct cs_store *store = open_store();
    for (int32_t n = 0; n < n_said; n++) {
        ck_assert_msg(knows(store, n), "result %d of %d is lost", n, n_said);
    }
    cs_store_close(store);
    close(fds[0]);
}
END_TEST

#define N_WRITERS 3
#define N_EACH 100

START_TEST(test_several_writers)
{
    pid_t children[N_WRITERS];
    for (int32_t w = 0; w < N_WRITERS; w++) {
        children[w] = fork();
        if (children[w] == 0) {
            struct cs_store *store = open_store(); /* all of them make it at once */
            for (int32_t n = 0; n < N_EACH; n++) {
                save(store, w * N_EACH / 2 + n); /* half of them twice */
            }
            int status = cs_store_problem(store) != NULL;
            cs_store_close(store);
            _exit(status);
        }
    }
    for (int32_t w = 0; w < N_WRITERS; w++) {
        int status = 1;
        waitpid(children[w], &status, 0);
        ck_assert_int_eq(status, 0);
    }
    struct cs_store *store = open_store();
    ck_assert_int_eq(cs_store_n_results(store), N_EACH * (N_WRITERS + 1) / 2);
    cs_store_close(store);
}
END_TEST

START_TEST(test_full_disk)
{
    pid_t child = fork();
    if (child == 0) {
        struct cs_store *store = open_store();
        const struct rlimit limit = {200000, 200000};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        for (int32_t n = 0; n < 2000 && !cs_store_problem(store); n++) {
            save(store, n);
        }
        const char *problem = cs_store_problem(store);
        bool good = problem && strstr(problem, path) && strstr(problem, "no longer stored") &&
                    knows(store, 0); /* what is in it can still be read */
        save(store, 5000);
        cs_store_close(store);
        _exit(good ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    struct cs_store *store = open_store();
    ck_assert(knows(store, 0));
    save(store, 6000);
    ck_assert_ptr_null(cs_store_problem(store));
    ck_assert(knows(store, 6000));
    cs_store_close(store);
}
END_TEST

/* A number that a query of the file gives, as anybody would ask it; -1 when it gives no row. */
static int64_t ask(const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    int64_t answer = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : -1;
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return answer;
}

/* Some need too much, some break a constraint, one cannot be had. */
static cs_status made_up(void *context, const struct cs_strategy *strategy, struct cs_evaluation *evaluation,
                         struct cs_err *err)
{
    (void)context;
    evaluation->simulated = true;
    evaluation->metrics.iteration_s = 1.0 / strategy->mp;
    evaluation->metrics.tokens_per_s = strategy->mp;
    if (strategy->mp == 2 && strategy->pp == 4 && strategy->micro_batch == 1) {
        return cs_err_set(err, CS_E_ENGINE, CS_NOLOC, "made up");
    }
    evaluation->metrics.cross_node_comm_frac = strategy->pp == 2 ? 0.5 : 0;
    evaluation->metrics.peak_memory_bytes = strategy->mp == 1 ? INT64_C(1) << 60 : 1;
    cs_evaluation_judge(evaluation, &study);
    return CS_OK;
}

static void check_verdicts(const struct cs_search_result *result)
{
    for (int32_t i = 0; i < result->n_reasons; i++) {
        const struct cs_reason *reason = &result->reasons[i];
        char *sql = sqlite3_mprintf("SELECT count(*) FROM verdicts WHERE outcome = %Q AND rule = %Q",
                                    cs_outcome_names[reason->outcome], reason->rule);
        ck_assert_msg(ask(sql) == reason->n, "%s: %lld in the store, %lld counted", sql, (long long)ask(sql),
                      (long long)reason->n);
        sqlite3_free(sql);
    }
    ck_assert_int_eq(ask("SELECT count(*) FROM verdicts"),
                     result->n_rejected + result->n_oom + result->n_failed);
    ck_assert_int_eq(ask("SELECT count(*) FROM verdicts WHERE strategy = '' OR reason IS NULL"), 0);
}

/* Each refused candidate is there with its one reason, after a second search too. */
START_TEST(test_verdicts)
{
    struct cs_err err = {0};
    struct cs_space space = {0};
    const char *const keys[] = {"strategy.mp", "strategy.pp", "strategy.placement",
                                "constraints.cross_node_comm_fraction", "constraints.rules"};
    const char *const values[] = {"[1, 2, 4]", "[1, 2, 4]", "\"mp,cp,dp,pp\"", "0.3", "[\"op <= 8\"]"};
    struct cs_override settings[CS_COUNT(keys)];
    for (int32_t i = 0; i < CS_COUNT(keys); i++) {
        settings[i] = (struct cs_override){keys[i], values[i], false};
    }
    const struct cs_study_source source = {.data_dir = CS_TEST_SOURCE_DIR,
                                           .path = CS_TEST_SOURCE_DIR
                                           "/tests/data/studies/llama3-70b-64-plain.yaml",
                                           .n_overrides = CS_COUNT(settings),
                                           .overrides = settings};
    cs_study_release(&study);
    ck_assert_ok(cs_study_load(&study, &source, &err), &err);
    study.search.algorithm = "enumerate";
    ck_assert_ok(cs_space_build(&space, &study, &err), &err);
    for (int32_t turn = 0; turn < 2; turn++) {
        struct cs_search_result result;
        struct cs_store *store = open_store();
        ck_assert_ok(cs_store_space(store, &study, &space, &err), &err);
        const struct cs_search_options how = {
            .n_workers = 2, .evaluate = made_up, .memory = cs_store_memory(store)};
        ck_assert_ok(cs_search_run(&result, &study, &space, &how, &err), &err);
        ck_assert_ptr_null(cs_store_problem(store));
        cs_store_close(store);
        ck_assert_int_gt(result.n_failed, 0);
        ck_assert_int_gt(result.n_oom, 0);
        ck_assert_int_gt(result.n_ranked, 0);
        ck_assert_int_gt(result.n_rejected, space.n_candidates - space.n_open);
        ck_assert_int_ge(result.n_reasons, 4);
        check_verdicts(&result);
        cs_search_result_release(&result);
    }
    cs_space_release(&space);
}
END_TEST

static void refuse(struct cs_store *store, int64_t candidate, enum cs_outcome outcome, const char *rule)
{
    struct cs_strategy strategy = strategy_of((int32_t)candidate);
    const struct cs_search_memory *memory = cs_store_memory(store);
    memory->refuse(memory->context, candidate, &strategy, outcome, rule, "made up");
}

static void settle(struct cs_store *store)
{
    const struct cs_search_memory *memory = cs_store_memory(store);
    memory->settle(memory->context);
}

/* Two searches of one space at once: what either refused is there once, and a candidate that failed in one
 * has no verdict when the other has its result. */
START_TEST(test_two_searches)
{
    struct cs_err err = {0};
    struct cs_space space = {0};
    struct cs_store *stores[2];
    ck_assert_ok(cs_space_build(&space, &study, &err), &err);
    for (int32_t i = 0; i < 2; i++) {
        stores[i] = open_store();
        ck_assert_ok(cs_store_space(stores[i], &study, &space, &err), &err);
    }
    refuse(stores[0], 1, CS_OUTCOME_REJECTED, "a rule");
    refuse(stores[0], 2, CS_OUTCOME_OOM, "memory");
    refuse(stores[0], 3, CS_OUTCOME_FAILED, "time-limit");
    refuse(stores[0], 4, CS_OUTCOME_FAILED, "time-limit");
    settle(stores[0]);
    save(stores[0], 2); /* a result that does not fit is one, and still refused */
    save(stores[1], 3);
    refuse(stores[1], 1, CS_OUTCOME_REJECTED, "a rule");
    refuse(stores[1], 5, CS_OUTCOME_OOM, "memory");
    settle(stores[1]);
    ck_assert_int_eq(ask("SELECT count(*) FROM verdicts"), 4);
    ck_assert_int_eq(ask("SELECT count(*) FROM verdicts WHERE candidate IN (1, 2, 4, 5)"), 4);
    refuse(stores[0], 6, CS_OUTCOME_FAILED, "time-limit");
    settle(stores[0]);
    save(stores[1], 6);
    refuse(stores[1], 4, CS_OUTCOME_OOM, "memory");
    settle(stores[1]);
    ck_assert_int_eq(ask("SELECT count(*) FROM verdicts"), 5);
    cs_store_close(stores[0]);
    cs_store_close(stores[1]);
    ck_assert_int_eq(ask("SELECT count(*) FROM verdicts"), 4);
    ck_assert_int_eq(ask("SELECT count(*) FROM verdicts WHERE outcome = 'failed'"), 0);
    ck_assert_int_eq(ask("SELECT count(*) FROM verdicts WHERE candidate = 4 AND rule = 'memory'"), 1);
    cs_space_release(&space);
}
END_TEST

/* Tables of others that bear the names of ours make no store, and stay as they are. */
START_TEST(test_tables_of_others)
{
    static const char *const tables[] = {"CREATE TABLE meta(name TEXT, content TEXT)",
                                         "CREATE TABLE meta(key TEXT, value TEXT)",
                                         "CREATE TABLE verdicts(judge TEXT)",
                                         "CREATE TABLE results(a INTEGER)", "CREATE TABLE letters(a TEXT)"};
    ck_assert_int_eq(ask(tables[_i]), -1);
    ck_assert_int_eq(_i == 1 ? ask("INSERT INTO meta VALUES('version', '3')") : -1, -1);
    refuses("is a database of something else");
    ck_assert_int_eq(ask("SELECT count(*) FROM sqlite_master"), 1);
}
END_TEST

/* A store of the format before says whose it is, and is left as it was. */
START_TEST(test_old_format)
{
    cs_store_close(open_store());
    ck_assert_int_eq(ask("DROP TABLE verdicts"), -1);
    ck_assert_int_eq(ask("DROP TABLE spaces"), -1);
    ck_assert_int_eq(ask("UPDATE meta SET value = replace(value, 'format 2', 'format 1')"), -1);
    refuses("another version");
    ck_assert_int_eq(ask("SELECT count(*) FROM sqlite_master WHERE name = 'verdicts'"), 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("store");
    TCase *c = tcase_create("store");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, test_remembers);
    tcase_add_test(c, test_is_shared);
    tcase_add_test(c, test_hash_sees);
    tcase_add_test(c, test_hash_sees_all_of_training);
    tcase_add_test(c, test_refuses);
    tcase_add_loop_test(c, test_killed, 0, 4);
    tcase_add_test(c, test_several_writers);
    tcase_add_test(c, test_full_disk);
    tcase_add_test(c, test_verdicts);
    tcase_add_test(c, test_two_searches);
    tcase_add_loop_test(c, test_tables_of_others, 0, 5);
    tcase_add_test(c, test_old_format);
    suite_add_tcase(s, c);
    return s;
}

CS_TEST_MAIN(suite)
