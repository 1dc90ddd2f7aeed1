#!/bin/sh
# embed_images.sh: print C that embeds the named files as the table hjg_cuda_images
# (see device_cuda_device.c).  With no file it prints an empty table.
echo '#include "device/hjg_cuda.h"'
for file; do
	name=$(basename "$file" .fatbin)
	echo "__asm__(\".pushsection .rodata\\n.balign 64\\nhjg_image_$name:\\n.incbin \\\"$file\\\"\\n.byte 0\\n.popsection\\n\");"
	echo "extern const char hjg_image_$name[];"
done
echo 'const HjgCudaImage hjg_cuda_images[] = {'
for file; do
	name=$(basename "$file" .fatbin)
	echo "	{\"$name\", hjg_image_$name},"
done
echo '	{NULL, NULL},'
echo '};'
