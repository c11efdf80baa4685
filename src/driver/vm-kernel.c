/* Boot images and modules, looked at closely: what is wrong with them is said here, by name, and not by a machine that
 * does not start. Offsets are those of the kernel's x86 boot protocol. */
#include "driver/vm-kernel.h"

#include <elf.h>
#include <stdio.h>

#include "driver/vm-lz4.h"

#define SECTOR          512
#define SETUP_SECTORS   0x1f1
#define SYSTEM_SIZE     0x1f4 /* of what follows the setup, in units of 16 bytes */
#define BOOT_FLAG       0x1fe
#define BOOT_MAGIC      0x202
#define BOOT_VERSION    0x206
#define RELEASE_POINTER 0x20e
#define PAYLOAD_OFFSET  0x248
#define PAYLOAD_LENGTH  0x24c
#define HEADER_END      0x250
#define VERSION_NEEDED  0x208 /* the first with a payload */

#define NOTE_PVH 18 /* XEN_ELFNOTE_PHYS32_ENTRY: where a machine without firmware enters */

static uint32_t number(const uint8_t *p, unsigned bytes) {
        uint32_t v = 0;

        while (bytes-- > 0)
                v = v << 8 | p[bytes];
        return v;
}

/* Who signs an image for Secure Boot writes two fields of its PE header after the checksum was made. They count as they
 * were before: zeros. */
static bool is_signature(const uint8_t *image, size_t at) {
        size_t pe = number(image + 0x3c, 4);

        if (pe > SECTOR || memcmp(image + pe, "PE\0", 4) != 0)
                return false;
        size_t checksum = pe + 24 + 64, certificates = pe + 24 + 112 + 4 * 8;
        return (at >= checksum && at < checksum + 4) || (at >= certificates && at < certificates + 8);
}

/* The kernel's build appends a CRC-32 that makes that of the whole 0. A packed kernel has no other. */
static bool checksum_is_right(const uint8_t *image, size_t size) {
        uint32_t table[256], crc = UINT32_MAX;

        for (uint32_t i = 0; i < 256; i++) {
                table[i] = i;
                for (unsigned bit = 0; bit < 8; bit++)
                        table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320U : 0);
        }
        for (size_t i = 0; i < size; i++)
                crc = table[(uint8_t)(crc ^ (i < 2 * SECTOR && is_signature(image, i) ? 0 : image[i]))] ^ crc >> 8;
        return crc == 0;
}

/* "6.1.0-54-cloud-amd64 (builder@…) …": the first word. */
static int read_release(const uint8_t *image, size_t size, char ret[VM_RELEASE_SIZE]) {
        size_t at = number(image + RELEASE_POINTER, 2) + (size_t)SECTOR, n = 0;

        while (at + n < size && n < VM_RELEASE_SIZE - 1 && image[at + n] > ' ' && image[at + n] < 127) {
                ret[n] = (char)image[at + n];
                n++;
        }
        ret[n] = '\0';
        return n > 0 && at + n < size && image[at + n] == ' ' ? 0 : ERR_CORRUPT;
}

static bool within(uint64_t at, uint64_t size, size_t whole) {
        return at <= whole && size <= whole - at;
}

static bool is_elf(const uint8_t *bytes, size_t size, unsigned type) {
        Elf64_Ehdr h;

        if (size < sizeof h)
                return false;
        memcpy(&h, bytes, sizeof h);
        return memcmp(h.e_ident, ELFMAG, SELFMAG) == 0 && h.e_ident[EI_CLASS] == ELFCLASS64 && h.e_type == type &&
               h.e_machine == EM_X86_64;
}

static bool notes_have_pvh(const uint8_t *notes, size_t size) {
        size_t at = 0;
        Elf64_Nhdr n;

        while (within(at, sizeof n, size)) {
                memcpy(&n, notes + at, sizeof n);
                size_t name = at + sizeof n, next = name + ((n.n_namesz + (size_t)3) & ~(size_t)3);

                if (!within(name, n.n_namesz, size))
                        return false;
                if (n.n_type == NOTE_PVH && n.n_namesz == 4 && memcmp(notes + name, "Xen", 4) == 0)
                        return true;
                at = next + ((n.n_descsz + (size_t)3) & ~(size_t)3);
        }
        return false;
}

static bool has_pvh(const uint8_t *kernel, size_t size) {
        Elf64_Ehdr h;
        Elf64_Phdr p;

        memcpy(&h, kernel, sizeof h);
        for (size_t i = 0; i < h.e_phnum; i++) {
                if (!within(h.e_phoff, (i + 1) * sizeof p, size))
                        return false;
                memcpy(&p, kernel + h.e_phoff + i * sizeof p, sizeof p);
                if (p.p_type == PT_NOTE && within(p.p_offset, p.p_filesz, size) &&
                    notes_have_pvh(kernel + p.p_offset, p.p_filesz))
                        return true;
        }
        return false;
}

static int check_kernel(const struct buf *kernel, uint32_t said, struct err *err) {
        const uint8_t *bytes = (const uint8_t *)kernel->data;

        if (kernel->size != said)
                return err_set(err, ERR_CORRUPT, "the kernel has %zu bytes and should have %u", kernel->size, said);
        if (!is_elf(bytes, kernel->size, ET_EXEC))
                return err_set(err, ERR_CORRUPT, "what is in it is no x86-64 kernel");
        if (!has_pvh(bytes, kernel->size)) {
                (void)err_set(err, ERR_INPUT, "this kernel cannot be booted without firmware (it has no PVH entry)");
                return err_hint(err, "use linux-image-cloud-amd64, which can");
        }
        return 0;
}

int vm_kernel_unpack(const uint8_t *image, size_t size, struct buf *ret_kernel, char ret_release[VM_RELEASE_SIZE],
                     struct err *err) {
        if (size < HEADER_END || number(image + BOOT_FLAG, 2) != 0xaa55 || memcmp(image + BOOT_MAGIC, "HdrS", 4) != 0)
                return err_set(err, ERR_CORRUPT, "this is no x86 boot image");
        if (number(image + BOOT_VERSION, 2) < VERSION_NEEDED)
                return err_set(err, ERR_INPUT, "the boot image is of a format before Linux 2.6.26");
        if (read_release(image, size, ret_release) < 0)
                return err_set(err, ERR_CORRUPT, "the boot image does not say which kernel it is");

        unsigned sectors = image[SETUP_SECTORS] ? image[SETUP_SECTORS] : 4;
        uint64_t at = (uint64_t)(sectors + 1) * SECTOR + number(image + PAYLOAD_OFFSET, 4);
        uint64_t whole = (uint64_t)(sectors + 1) * SECTOR + number(image + SYSTEM_SIZE, 4) * 16ULL;
        uint32_t length = number(image + PAYLOAD_LENGTH, 4);
        if (length < 8 || whole > size || !within(at, length, (size_t)whole))
                return err_set(err, ERR_CORRUPT, "the boot image is cut short");
        if (!vm_lz4_begins(image + at, length)) {
                (void)err_set(err, ERR_INPUT, "the kernel in the boot image is not packed with LZ4");
                return err_hint(err, "use linux-image-cloud-amd64 of Debian 12, which is");
        }
        if (!checksum_is_right(image, (size_t)whole)) {
                (void)err_set(err, ERR_CORRUPT, "the boot image is damaged: its checksum is wrong");
                return err_hint(err, "install it again: apt-get install --reinstall linux-image-%s", ret_release);
        }
        /* its unpacked size follows, as the kernel's build leaves it there */
        int r = vm_lz4_unpack(image + at, length - 4, ret_kernel, err);
        return r < 0 ? err_prefix(err, r, "the packed kernel")
                     : check_kernel(ret_kernel, number(image + at + length - 4, 4), err);
}

int vm_module_check(const uint8_t *bytes, size_t size, const char *release, struct err *err) {
        char wanted[VM_RELEASE_SIZE + 16];
        const uint8_t *says;

        if (!is_elf(bytes, size, ET_REL)) {
                (void)err_set(err, ERR_INPUT, "this is no module of an x86-64 kernel, or a packed one");
                return err_hint(err, "modules have to be as Debian 12 installs them: not compressed");
        }
        int n = snprintf(wanted, sizeof wanted, "vermagic=%s ", release);
        says = memmem(bytes, size, "vermagic=", 9);
        if (!says || (size_t)n > size - (size_t)(says - bytes) || memcmp(says, wanted, (size_t)n) != 0)
                return err_set(err, ERR_INPUT, "the module is not one of kernel %s", release);
        return 0;
}
