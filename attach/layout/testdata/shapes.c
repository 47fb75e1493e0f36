/* Structs with the names of Ruby's and shapes of every kind; the program prints where the compiler has put each field:
 * "STRUCT SIZE", "STRUCT.FIELD OFFSET SIZE", and for bit fields "STRUCT.FIELD bits" with the words' set bits. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long VALUE;
enum rb_thread_status { THREAD_RUNNABLE, THREAD_STOPPED, THREAD_STOPPED_FOREVER = 40, THREAD_KILLED = -3 };
enum { RUBY_FL_SINGLETON = 0x2000, tLAST_OP_ID = 170 };
enum { VM_FRAME_MAGIC_METHOD = 0x11110001, RUBY_T_MASK = 0x1f };

struct ccan_list_node { struct ccan_list_node *next, *prev; };

struct RBasic { VALUE flags; const VALUE klass; };
struct RString {
    struct RBasic basic;
    long len;
    union {
        struct { char *ptr; union { long capa; VALUE shared; } aux; } heap;
        struct { char ary[1]; } embed;
    } as;
};
struct RClass { struct RBasic basic; VALUE super; };

struct rb_iseq_struct { VALUE flags; VALUE wrapper; struct rb_iseq_constant_body *body; union { VALUE one; int two[3]; } aux; };
struct rb_iseq_constant_body {
    enum rb_iseq_type { ISEQ_TYPE_TOP, ISEQ_TYPE_METHOD } type;
    unsigned int iseq_size;
    struct {
        struct {
            unsigned int has_lead : 1;
            unsigned int has_opt : 1;
            unsigned int rest : 11;
        } flags;
        int size;
    } param;
    union { struct { int left; char right; }; long whole; };
    long double wide;
};

typedef struct rb_control_frame_struct { const VALUE *pc; VALUE *sp; const struct rb_iseq_struct *iseq; VALUE self; const VALUE *ep; } rb_control_frame_t;
typedef struct { rb_control_frame_t *cfp; volatile int flags[2][3]; short tail; } rb_env_t;
struct rb_execution_context_struct { VALUE *vm_stack; size_t vm_stack_size; rb_control_frame_t *cfp; struct { long regs[25]; } machine; };

struct rb_thread_struct {
    struct ccan_list_node lt_node;
    VALUE self;
    struct { struct { struct ccan_list_node readyq, ubf; } node; _Bool finished; } sched;
    enum rb_thread_status status : 2;
    unsigned int has_dedicated_nt : 1;
    unsigned int to_kill : 1;
    unsigned int : 3;
    unsigned int after_gap : 5;
    signed char narrow : 3;
    unsigned long long across : 40;
    unsigned int next_word : 30;
    VALUE name;
    char rest[];
};
struct rb_vm_struct { VALUE self; struct { struct ccan_list_node set; unsigned int cnt; } ractor; struct rb_thread_struct *main; struct { unsigned char mode : 2; unsigned char during_gc : 1; } flags; };
struct __attribute__((packed)) rb_monitor { char count; int owner; VALUE mutex; };

#define STRUCT(s) printf("%s %zu\n", (strncmp(#s, "struct ", 7) ? #s : #s + 7), sizeof(s))
#define FIELD(s, n, f) printf("%s.%s %zu %zu\n", n, #f, offsetof(s, f), sizeof(((s *)0)->f))
#define BITS(s, n, f) do { \
    static union { s v; unsigned char b[sizeof(s)]; } u; \
    memset(&u, 0, sizeof u); u.v.f = ~0ull; \
    printf("%s.%s bits", n, #f); \
    for (size_t i = 0; i < 8 * sizeof(s); i++) if (u.b[i / 8] >> (i % 8) & 1) printf(" %zu", i); \
    printf("\n"); } while (0)

/* Every type is used, so that none is left out of the debug information. */
struct rb_vm_struct vm; struct rb_thread_struct thread; struct rb_execution_context_struct ec; rb_env_t env;
struct rb_iseq_struct iseq; struct rb_iseq_constant_body body; struct RClass klass; struct RString string; struct rb_monitor monitor;
int constants[] = { RUBY_FL_SINGLETON, tLAST_OP_ID, THREAD_KILLED, VM_FRAME_MAGIC_METHOD, RUBY_T_MASK };

int main(void)
{
    STRUCT(struct RString); STRUCT(struct rb_thread_struct); STRUCT(struct rb_iseq_constant_body); STRUCT(rb_env_t);
    STRUCT(struct rb_vm_struct); STRUCT(struct rb_monitor); STRUCT(struct ccan_list_node);
    FIELD(struct RString, "RString", basic.klass); FIELD(struct RString, "RString", as.heap.aux.shared);
    FIELD(struct RString, "RString", as.embed.ary); FIELD(struct RString, "RString", as);
    FIELD(struct rb_iseq_struct, "rb_iseq_struct", aux.two); FIELD(struct rb_iseq_struct, "rb_iseq_struct", body);
    FIELD(struct rb_iseq_constant_body, "rb_iseq_constant_body", type);
    FIELD(struct rb_iseq_constant_body, "rb_iseq_constant_body", param.size);
    FIELD(struct rb_iseq_constant_body, "rb_iseq_constant_body", right);
    FIELD(struct rb_iseq_constant_body, "rb_iseq_constant_body", whole);
    FIELD(struct rb_iseq_constant_body, "rb_iseq_constant_body", wide);
    BITS(struct rb_iseq_constant_body, "rb_iseq_constant_body", param.flags.has_opt);
    BITS(struct rb_iseq_constant_body, "rb_iseq_constant_body", param.flags.rest);
    FIELD(rb_env_t, "rb_env_t", flags); FIELD(rb_env_t, "rb_env_t", tail);
    FIELD(struct rb_thread_struct, "rb_thread_struct", sched.node.ubf.prev);
    FIELD(struct rb_thread_struct, "rb_thread_struct", sched.finished);
    FIELD(struct rb_thread_struct, "rb_thread_struct", name);
    BITS(struct rb_thread_struct, "rb_thread_struct", status);
    BITS(struct rb_thread_struct, "rb_thread_struct", to_kill);
    BITS(struct rb_thread_struct, "rb_thread_struct", after_gap);
    BITS(struct rb_thread_struct, "rb_thread_struct", narrow);
    BITS(struct rb_thread_struct, "rb_thread_struct", across);
    BITS(struct rb_thread_struct, "rb_thread_struct", next_word);
    BITS(struct rb_vm_struct, "rb_vm_struct", flags.during_gc);
    FIELD(struct rb_vm_struct, "rb_vm_struct", ractor.cnt);
    FIELD(struct rb_monitor, "rb_monitor", owner); FIELD(struct rb_monitor, "rb_monitor", mutex);
    return 0;
}
