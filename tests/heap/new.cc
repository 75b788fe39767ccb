// operator new and containers.
#include <cstdio>
#include <memory>
#include <vector>
extern "C" {
#include "heap.h"
}

int main()
{
	auto many = std::make_unique<double[]>(100000);
	CHECK(in_pool(many.get()));
	std::vector<int> grows;
	for (int nth = 0; nth < 1000000; nth++)
		grows.push_back(nth);
	CHECK(in_pool(grows.data()) && grows[999999] == 999999);
	struct alignas(128) wide {
		char bytes[128];
	};
	std::vector<wide> aligned(10000);
	CHECK(in_pool(aligned.data()) && reinterpret_cast<uintptr_t>(aligned.data()) % 128 == 0);
	return failed;
}
