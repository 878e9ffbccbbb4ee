// The header under the name that the papers give it.

#ifndef MIO_H
#define MIO_H

#include "sfio.h"

#endif
