#!/bin/sh
# embed_images.sh: print C that embeds the named files as the table hjg_cuda_images
# (see device/hjg_cuda.h).  With no file it prints an empty table.
name_of() { basename "$1" .fatbin; }

printf '#include "device/hjg_cuda.h"\n'
for file; do
	name=$(name_of "$file")
	printf '__asm__(".pushsection .rodata\\n.balign 64\\nhjg_image_%s:\\n.incbin \\"%s\\"\\n.popsection\\n");\n' "$name" "$file"
	printf 'extern const char hjg_image_%s[];\n' "$name"
done
printf 'const HjgCudaImage hjg_cuda_images[] = {\n'
for file; do
	name=$(name_of "$file")
	printf '\t{"%s", hjg_image_%s},\n' "$name" "$name"
done
printf '\t{NULL, NULL},\n};\n'
