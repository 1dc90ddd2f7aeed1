/*
 * hjg_lab_plan.h
 *	  Compression plans as text.  Internal to the room "lab".
 */
#ifndef HJG_LAB_PLAN_H
#define HJG_LAB_PLAN_H

#include "coupled/hjg_pack_model.h"

/* Write a plan in the papers' notation "RLE,[[Delta,NS],NS]"; returns text. */
extern const char *hjg_lab_plan_text(const HjgPackPlan *plan, char *text, size_t room);

#endif							/* HJG_LAB_PLAN_H */
