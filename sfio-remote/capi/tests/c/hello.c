// The first program of the paper, without MPI.

#include "mio.h"

int main(void)
{
    MFILE *f;
    f=mopen
    (
        "t0-p1,/tmp/a1.dat;"
        "t0-p2,/tmp/a2.dat;"
        ,5
    );
    //writes at location 0 in the
    //global file 11 characters
    mwritec(f,0,"Hello World",11);
    mclose(f);
}
