/*
 * device_confine.c
 *	  Confinement of the device process, which drivers cannot undo.
 *
 * The supervisor starts the process without the server's environment, directory and core dumps
 * (service_spawn.c).  Before the first thread and the first driver, the process and its children give up
 * for good the right to gain privileges, and more in two ways.
 *
 * Landlock (Linux 5.19 and newer).  Files are read only below the directories of programs, libraries and
 * their settings; only GPU devices are opened; files are written only in the cache directory.  The data
 * directory is out of reach wherever it lies, with its tablespaces and write-ahead log.  If the kernel can
 * do so, only the process's own children can get signals from it.  Drivers open files when they need them,
 * so the rules name places, not files.
 *
 * Seccomp.  No sockets except local ones that connect to nobody (a connection to the server would be its
 * owner's), no other process's memory, no System V shared memory, no mode or owner of a file by its path,
 * and nothing that administers the machine.
 *
 * If the kernel lacks one of these, the process serves without it, and hjoin_gpu_devices says so.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/hjg_device.h"

/* ---- Landlock: the kernel's interface, which older systems' headers lack ---- */

#define LANDLOCK_CREATE_RULESET 444
#define LANDLOCK_ADD_RULE 445
#define LANDLOCK_RESTRICT_SELF 446
#define LANDLOCK_ASK_VERSION 1u
#define LANDLOCK_PATH_BENEATH 1

/* Rights on files, and on directories with everything below them. */
#define MAY_EXECUTE (1ull << 0)
#define MAY_WRITE (1ull << 1)
#define MAY_READ (1ull << 2)
#define MAY_LIST (1ull << 3)
#define MAY_REFER (1ull << 13)	/* rename between directories: version 2 */
#define MAY_TRUNCATE (1ull << 14)	/* version 3 */
#define MAY_IOCTL (1ull << 15)	/* of devices: version 5 */
#define ALL_OF_VERSION_1 ((1ull << 13) - 1)
#define RIGHTS_OF_FILES (MAY_EXECUTE | MAY_WRITE | MAY_READ | MAY_TRUNCATE | MAY_IOCTL)

/* Version 1 forbids renaming between directories, by which drivers fill their caches. */
#define LEAST_VERSION 2
#define VERSION_OF_NET 4
#define VERSION_OF_SCOPES 6

typedef struct Ruleset
{
	hjg_u64		fs;
	hjg_u64		net;			/* binding and connecting TCP sockets */
	hjg_u64		scoped;			/* abstract sockets of others, and signals to them */
} Ruleset;

typedef struct PathBeneath
{
	hjg_u64		allowed;
	int			fd;
} __attribute__((packed)) PathBeneath;

static const char *const read_roots[] = {
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/snap", "/run/opengl-driver",
	"/sys",
	"/etc/OpenCL", "/etc/nvidia", "/etc/pocl", "/etc/vulkan", "/etc/drirc", "/etc/alternatives",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
	"/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/localtime"
};

/* Variables that name more places of drivers, separated by colons. */
static const char *const path_variables[] = {"LD_LIBRARY_PATH", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH", "OPENCL_LAYERS"};

/* Allowed prefixes of names in /dev; not /dev/shm, which may hold the server's shared memory. */
static const char *const plain_devices[] = {"null", "zero", "full", "random", "urandom"};
static const char *const gpu_devices[] = {"nvidia", "dri", "kfd", "dxg", "accel", "mali", "kgsl", "pvr"};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static char **forbidden_paths;		/* absolute, without symbolic links */
static size_t nforbidden_paths;
static DIR *dev_dir;			/* /dev, opened before the rules forbid listing it; NULL: no rules */
static int	known_gpus;			/* GPU entries in /dev that the rules allow */

static bool
forbid_path(const char *path)
{
	char	   *real = realpath(path, NULL);
	char	  **more;

	if (real == NULL)
		return errno == ENOENT || errno == ENOTDIR;
	more = realloc(forbidden_paths, (nforbidden_paths + 1) * sizeof(*forbidden_paths));
	if (more == NULL)
	{
		free(real);
		return false;
	}
	forbidden_paths = more;
	forbidden_paths[nforbidden_paths++] = real;
	return true;
}

/* Forbid the data directory, and the places outside it that it names. */
static bool
forbid_data(const char *data_dir)
{
	char		path[PATH_MAX];
	struct dirent *entry;
	DIR		   *dir;
	bool		good = forbid_path(data_dir);

	snprintf(path, sizeof(path), "%s/pg_wal", data_dir);
	good = forbid_path(path) && good;
	snprintf(path, sizeof(path), "%s/pg_tblspc", data_dir);
	dir = opendir(path);
	if (dir == NULL)
		return good && errno == ENOENT;
	while ((entry = readdir(dir)) != NULL)
	{
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/pg_tblspc/%.128s", data_dir, entry->d_name);
		good = forbid_path(path) && good;
	}
	closedir(dir);
	return good;
}

/* True if the path is the directory or below it. */
static bool
is_within(const char *path, const char *dir)
{
	const size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/' || (n > 0 && dir[n - 1] == '/'));
}

static void
allow_path(int ruleset, const char *path, hjg_u64 rights)
{
	PathBeneath rule = {rights, open(path, O_PATH | O_CLOEXEC)};
	struct stat st;

	if (rule.fd < 0)
		return;
	if (fstat(rule.fd, &st) == 0)
	{
		if (!S_ISDIR(st.st_mode))
			rule.allowed &= RIGHTS_OF_FILES;
		(void) syscall(LANDLOCK_ADD_RULE, ruleset, LANDLOCK_PATH_BENEATH, &rule, 0);
	}
	close(rule.fd);
}

static void allow_real(int ruleset, const char *path, hjg_u64 rights);

/* Allow the directory's entries one by one, because some are forbidden. */
static void
allow_entries(int ruleset, const char *path, hjg_u64 rights)
{
	DIR		   *dir = opendir(path);
	struct dirent *entry;

	if (dir == NULL)
		return;
	while ((entry = readdir(dir)) != NULL)
	{
		char		below[PATH_MAX];
		const int	n = snprintf(below, sizeof(below), "%s/%s", strcmp(path, "/") == 0 ? "" : path, entry->d_name);

		/* a link's target has its own place */
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && entry->d_type != DT_LNK &&
			n < (int) sizeof(below))
			allow_real(ruleset, below, rights);
	}
	closedir(dir);
}

static void
allow_real(int ruleset, const char *path, hjg_u64 rights)
{
	bool		divided = false;

	for (size_t i = 0; i < nforbidden_paths; i++)
	{
		if (is_within(path, forbidden_paths[i]))
			return;
		divided = divided || is_within(forbidden_paths[i], path);
	}
	if (divided)
		allow_entries(ruleset, path, rights);
	else
		allow_path(ruleset, path, rights);
}

/* Allow a path and everything below it, except what is forbidden; nothing if it does not exist. */
static void
allow_but(int ruleset, const char *path, hjg_u64 rights)
{
	char	   *real = path[0] == '/' ? realpath(path, NULL) : NULL;

	if (real != NULL)
		allow_real(ruleset, real, rights);
	free(real);
}

static bool
begins_with_one(const char *name, const char *const *prefixes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

/* Allow the devices of dev_dir, unless ruleset is -1; returns the number of GPU devices. */
static int
allow_devices(int ruleset, hjg_u64 rights)
{
	struct dirent *entry;
	int			ngpus = 0;

	rewinddir(dev_dir);
	while ((entry = readdir(dev_dir)) != NULL)
	{
		const bool	gpu = begins_with_one(entry->d_name, gpu_devices, LENGTH(gpu_devices));
		char		path[PATH_MAX];

		ngpus += gpu;
		if (ruleset < 0 || (!gpu && !begins_with_one(entry->d_name, plain_devices, LENGTH(plain_devices))))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		allow_path(ruleset, path, rights);
	}
	return ngpus;
}

static void
allow_programs(int ruleset, hjg_u64 rights)
{
	char		path[PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	for (size_t i = 0; i < LENGTH(read_roots); i++)
		allow_but(ruleset, read_roots[i], rights);
	for (size_t i = 0; i < LENGTH(path_variables); i++)
	{
		const char *value = getenv(path_variables[i]);
		char	   *copy = value == NULL ? NULL : strdup(value);
		char	   *next;

		for (char *item = copy == NULL ? NULL : strtok_r(copy, ":", &next); item != NULL; item = strtok_r(NULL, ":", &next))
			allow_but(ruleset, item, rights);
		free(copy);
	}
	/* this program, run again to look for devices */
	if (n <= 0)
		return;
	path[n] = '\0';
	allow_path(ruleset, path, rights);
}

/* Apply the Landlock rules; returns the version that holds from now on, 0: none. */
static hjg_u32
restrict_files(const char *data_dir, const char *cache_dir)
{
	const long	version = syscall(LANDLOCK_CREATE_RULESET, NULL, 0, LANDLOCK_ASK_VERSION);
	const hjg_u64 reads = MAY_EXECUTE | MAY_READ | MAY_LIST;
	Ruleset		handled = {.fs = ALL_OF_VERSION_1 | MAY_REFER};
	bool		good;
	int			ruleset;

	if (version < LEAST_VERSION)
		return 0;
	if (version >= 3)
		handled.fs |= MAY_TRUNCATE;
	if (version >= 5)
		handled.fs |= MAY_IOCTL;
	if (version >= VERSION_OF_NET)
		handled.net = 3;
	if (version >= VERSION_OF_SCOPES)
		handled.scoped = 3;
	ruleset = (int) syscall(LANDLOCK_CREATE_RULESET, &handled, sizeof(handled), 0);
	if (ruleset < 0)
		return 0;
	dev_dir = opendir("/dev");
	good = dev_dir != NULL && forbid_data(data_dir);
	if (good)
	{
		allow_programs(ruleset, reads);
		/*
		 * CUDA names its threads in /proc/self/task, also its children's; the kernel protects other
		 * processes there
		 */
		allow_path(ruleset, "/proc", handled.fs & (reads | MAY_WRITE | MAY_TRUNCATE));
		allow_path(ruleset, cache_dir, handled.fs & ~MAY_EXECUTE & ~MAY_IOCTL);
		known_gpus = allow_devices(ruleset, handled.fs & (MAY_READ | MAY_WRITE | MAY_LIST | MAY_IOCTL));
		good = syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0;
	}
	close(ruleset);
	if (good)
		return (hjg_u32) version;
	if (dev_dir != NULL)
		closedir(dev_dir);
	dev_dir = NULL;
	return 0;
}

bool
hjg_confine_outdated(void)
{
	return dev_dir != NULL && allow_devices(-1, 0) > known_gpus;
}

/* ---- seccomp ---- */

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef THIS_ARCH

#define X32_BIT 0x40000000u

/* Numbers from 424 on are the same on every architecture; headers may be older than the kernel. */
static const unsigned short denied_calls[] = {
	/* other processes */
	SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
	424 /* pidfd_send_signal */ , 438 /* pidfd_getfd */ , 440 /* process_madvise */ , 448 /* process_mrelease */ ,
	SYS_shmget, SYS_shmat, SYS_shmctl, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl,
	SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink,
	/* files by path, which Landlock does not check, or by no path at all */
	SYS_fchmodat, 452 /* fchmodat2 */ , SYS_fchownat, SYS_setxattr, SYS_lsetxattr, SYS_removexattr, SYS_lremovexattr,
	463 /* setxattrat */ , 466 /* removexattrat */ , 469 /* file_setattr */ , SYS_truncate, SYS_open_by_handle_at,
#ifdef SYS_chmod
	SYS_chmod, SYS_chown, SYS_lchown,
#endif
	/* the network */
	SYS_connect,
	/* ways around these rules */
	425, 426, 427 /* io_uring */ ,
	/* the machine */
	SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns,
	428 /* open_tree */ , 429 /* move_mount */ , 430, 431, 432, 433 /* fsopen, fsconfig, fsmount, fspick */ ,
	442 /* mount_setattr */ , 443 /* quotactl_fd */ , 467 /* open_tree_attr */ , SYS_quotactl,
	SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_syslog, SYS_acct, SYS_reboot, SYS_swapon, SYS_swapoff,
	SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load,
#ifdef SYS_kexec_file_load
	SYS_kexec_file_load,
#endif
	SYS_add_key, SYS_request_key, SYS_keyctl, SYS_fanotify_init,
	SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex, SYS_sethostname, SYS_setdomainname, SYS_vhangup,
#ifdef SYS_iopl
	SYS_iopl, SYS_ioperm,
#endif
};

/* Apply the seccomp filter; true if it holds from now on. */
static bool
restrict_calls(void)
{
	struct sock_filter code[2 * LENGTH(denied_calls) + 32];
	struct sock_fprog program = {.filter = code};
	const struct sock_filter allowed = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	const struct sock_filter denied = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	const struct sock_filter number = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	const struct sock_filter argument = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args));	/* lower half */
	unsigned short n = 0;

	code[n++] = (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0);
	code[n++] = denied;
	code[n++] = number;
	code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	code[n++] = denied;
	for (size_t i = 0; i < LENGTH(denied_calls); i++)
	{
		code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denied_calls[i], 0, 1);
		code[n++] = denied;
	}
	/* socket: local ones, and the kernel's device events */
	code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 5);
	code[n++] = argument;
	code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0);
	code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1);
	code[n++] = allowed;
	code[n++] = denied;
	/* kill: no process group, not all processes; Landlock checks single ones */
	code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 0, 5);
	code[n++] = argument;
	code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0);
	code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x80000000u, 1, 0);
	code[n++] = allowed;
	code[n++] = denied;
	/* prlimit64: only its own limits */
	code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 3);
	code[n++] = argument;
	code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
	code[n++] = denied;
	code[n++] = allowed;
	program.len = n;
	/* every join would pay for the processor's mitigations against untrusted code, which this is not */
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) == 0;
}

#else

static bool
restrict_calls(void)
{
	return false;
}

#endif							/* THIS_ARCH */

hjg_u32
hjg_confine(const char *data_dir, const char *cache_dir)
{
	hjg_u32		confined = 0;
	hjg_u32		landlock;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return 0;
	confined = HJG_CONFINED_NO_NEW_PRIVS;
	landlock = restrict_files(data_dir, cache_dir);
	confined |= landlock << HJG_CONFINED_LANDLOCK_SHIFT;
	if (restrict_calls())
		confined |= HJG_CONFINED_SECCOMP;
	for (size_t i = 0; i < nforbidden_paths; i++)
		free(forbidden_paths[i]);
	free(forbidden_paths);
	forbidden_paths = NULL;
	nforbidden_paths = 0;
	return confined;
}
