/*
 * load_average.c
 *	  Preloaded into a server, it has the system tell the load average in the file of HJG_LOAD.
 */
#include <stdio.h>
#include <stdlib.h>

int
getloadavg(double load[], int n)
{
	FILE	   *file = fopen(getenv("HJG_LOAD"), "r");
	int			found = file != NULL && n > 0 && fscanf(file, "%lf", load) == 1;

	if (file != NULL)
		fclose(file);
	return found ? 1 : -1;
}
