#pragma once
#define ROTRIGHT(a,b) (((a) >> (b)) | ((a) << (32-(b))))
#define EP0(x) (ROTRIGHT(x,2) ^ ROTRIGHT(x,13) ^ ROTRIGHT(x,22))

typedef struct {
    uint32_t state[4];
    size_t length;
} HASH_CTX;

struct miner_options {
    CURL *curl;
    miner::Pool pool;
};
