// The second program of the paper, without MPI: the rank is the first argument.

#include <stdlib.h>
#include "mio.h"

static int the_rank;

static int rank(void) { return the_rank; }

int main(int argc, char *argv[])
{
    MFILE *f;
    char bu[]="Hello*World!*";
    the_rank=argc>1?atoi(argv[1]):0;
    int r=rank();
    f=mopen
    (
        "t0-p1,/tmp/a.dat;"
        "t0-p2,/tmp/a.dat;"
        ,5
    );
    //each process writes at its own
    //position 13 characters
    mwritec(f,13*r,bu,13);
    mclose(f);
}
