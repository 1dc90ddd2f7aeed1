# The same programs, and the same failures, on the threads of the device process.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;

$ENV{HJG_PROGRAM_DEVICE} = 'cpu';
do "$FindBin::RealBin/024_programs.pl" or die $@ || $!;
