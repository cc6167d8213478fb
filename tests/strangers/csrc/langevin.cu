// What a molecular dynamics package compiles at run time, behind macros of its own
#ifndef TYPES
#define TYPES
typedef float real;
typedef double mixed;
#define make_real4 make_float4
typedef float4 real4;
typedef long long mm_long;
#endif
#define KERNEL extern "C" __global__
#define DEVICE __device__
#define GLOBAL
#define GLOBAL_ID (blockIdx.x*blockDim.x+threadIdx.x)
#define GLOBAL_SIZE (blockDim.x*gridDim.x)
#define PADDED_NUM_ATOMS ((NUM_ATOMS+31)/32*32)

enum {VelScale, NoiseScale};

DEVICE inline real4 scaled(real4 v, real by) { return make_real4(v.x*by, v.y*by, v.z*by, v.w); }

KERNEL void integrateLangevinPart1(int numAtoms, GLOBAL real4* RESTRICT velm, GLOBAL const real* RESTRICT paramBuffer,
        GLOBAL const real4* RESTRICT random) {
    real vscale = paramBuffer[VelScale];
    real noisescale = paramBuffer[NoiseScale];
    for (int index = GLOBAL_ID; index < numAtoms; index += GLOBAL_SIZE) {
        real4 velocity = velm[index];
        if (velocity.w != 0) {
            real4 moved = scaled(velocity, vscale);
            real4 kick = scaled(random[index], noisescale*sqrtf(velocity.w));
            velm[index] = make_real4(moved.x+kick.x, moved.y+kick.y, moved.z+kick.z, velocity.w);
        }
    }
}
